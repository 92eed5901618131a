"""Language models behind an OpenAI-compatible API: `Api`.

client.py    requests, retries, errors
probe.py     what a server can do
answers.py   from an answer to a row of numbers
scores.py    from rows to scores
model.py     the `Model`
server.py    log probabilities of given answers, for `slalom.context`
"""

from slalom.models.api.client import Client, Refused
from slalom.models.api.model import Api
from slalom.models.api.probe import Capabilities
from slalom.models.api.server import AnswerServer

__all__ = ["AnswerServer", "Api", "Capabilities", "Client", "Refused"]
