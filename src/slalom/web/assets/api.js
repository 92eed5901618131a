// Requests to the server that the page came from. Errors are one line, with a status: 0 where the server does not answer.

class ApiError extends Error {
  constructor(status, message, wait = null) {
    super(message);
    this.status = status;
    this.wait = wait; // seconds until it may be tried again
  }
}

const api = {
  async fetch(path, body, { signal, accept = "application/json" } = {}) {
    const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    let response;
    try {
      response = await window.fetch(path, { ...options, signal, headers: { "Content-Type": "application/json", Accept: accept } });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "The server does not answer.");
    }
    if (response.ok) return response;
    const said = await response.json().catch(() => ({}));
    const wait = Number(response.headers.get("Retry-After")) || null;
    throw new ApiError(response.status, said.error ?? `The server answered ${response.status}.`, wait);
  },

  async json(path, body, options) {
    return (await this.fetch(path, body, options)).json();
  },

  // Explain in rounds: on(name, data) for every server-sent event, until "done".
  async stream(path, body, signal, on) {
    const response = await this.fetch(path, body, { signal, accept: "text/event-stream" });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    let ended = false;
    const take = (block) => {
      const field = (name) => block.split("\n").filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart()).join("\n");
      const name = field("event");
      if (!name) return; // a comment that keeps the connection open
      const data = JSON.parse(field("data") || "{}");
      if (name === "error") throw new ApiError(data.status ?? 500, data.error ?? "The model failed.");
      ended ||= name === "done";
      on(name, data);
    };
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        waiting += value.replaceAll("\r\n", "\n");
        const blocks = waiting.split("\n\n");
        waiting = blocks.pop();
        blocks.forEach(take);
      }
    } catch (error) {
      reader.cancel().catch(() => {});
      if (error.name === "AbortError" || error instanceof ApiError) throw error;
      throw new ApiError(0, "The server does not answer.");
    }
    if (!ended) throw new ApiError(0, "The server does not answer.");
  },
};
