"""Language models behind an OpenAI-compatible API: `Api`.

transport.py one attempt of a request
client.py    requests, retries, errors
probe.py     what a server can do
answers.py   from an answer to a row of numbers
scores.py    from rows to scores
model.py     the `Model`
server.py    log probabilities of given answers, for `slalom.context`
"""

from slalom.models.api.answers import Mode, Outcome
from slalom.models.api.client import Client, Refused
from slalom.models.api.model import Api
from slalom.models.api.probe import Capabilities
from slalom.models.api.server import AnswerServer
from slalom.models.costs import Usage

__all__ = ["AnswerServer", "Api", "Capabilities", "Client", "Mode", "Outcome", "Refused", "Usage"]
