"""AttnLRP against its rules written out for relevances, and what it conserves."""

import numpy as np
import pytest
import torch
from scipy.special import erf, softmax

from slalom.errors import InputError
from slalom.methods import AttnLRP
from slalom.methods.white_box import relevance
from slalom.methods.white_box.passes import forward_pass
from slalom.models import model_of
from tests.cases import cases
from tests.models.tiny import ARCHITECTURES, classifier

TEXT = "a good film with a bad end"
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit")
LAYERS = {"bert": "num_hidden_layers", "distilbert": "n_layers", "gpt2": "n_layer"}


def network(name, layers, biases, n=2):
    """A random classifier in double precision, with biases or without."""
    small, words = classifier(name, n)
    torch.manual_seed(layers)
    net = type(small)(type(small.config)(**{**small.config.to_dict(), LAYERS[name]: layers})).double().eval()
    with torch.no_grad():
        for label, parameter in net.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
            elif label.endswith("bias"):
                parameter.normal_(0, 0.2 if biases else 0.0)
            else:
                parameter.uniform_(0.5, 1.5)
    return net, words


def everywhere(net, words, target=1, epsilon=0.0):
    """The relevances of all positions and the score."""
    model = model_of(net, words)
    with forward_pass(model, model.read(TEXT, "cut", None), "attnlrp") as run:
        found = relevance.relevance(run, target, epsilon).numpy()
        return found, model.head.scores(run.logits().detach().numpy(), target)[0]


# The rules for relevances themselves, one function each: what enters, what came out, the relevance of what came out.


def linear(x, w, b, R, epsilon):
    z = x @ w + b
    return x * ((R / (z + epsilon * np.where(z < 0, -1, 1))) @ w.T)


def product(a, b, R, epsilon):
    z = a @ b
    share = R / (z + epsilon * np.where(z < 0, -1, 1)) / 2
    return a * (share @ np.swapaxes(b, -1, -2)), b * (np.swapaxes(a, -1, -2) @ share)


def norm(x, module):
    w, b = module.weight.detach().numpy(), module.bias.detach().numpy()
    std = np.sqrt(x.var(axis=-1, keepdims=True) + module.eps)
    return (x - x.mean(axis=-1, keepdims=True)) / std * w + b, std, w


def norm_back(x, module, R):
    y, std, w = norm(x, module)
    d = x.shape[-1]
    return x * ((R / y * w / std) @ (np.eye(d) - 1 / d))


def weights(module):
    """The matrix (in, out) and the bias of a layer."""
    w, b = module.weight.detach().numpy(), module.bias.detach().numpy()
    return (w.T, b) if isinstance(module, torch.nn.Linear) else (w, b)


def heads(x, n):
    return x.reshape(len(x), n, -1).transpose(1, 0, 2)


def attention_back(x, parts, causal, R, epsilon):
    """The relevance of x (length, d) that enters query, key, value and output layers; R is that of what comes out."""
    (wq, bq), (wk, bk), (wv, bv), (wo, bo) = parts
    q, k, v = (heads(x @ w + b, 2) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
    raw = q @ k.transpose(0, 2, 1)
    scaled = raw / np.sqrt(q.shape[-1])
    hidden = np.triu(np.ones(raw.shape[-2:], dtype=bool), 1) & causal
    s = softmax(np.where(hidden, -np.inf, scaled), axis=-1)
    mixed = (s @ v).transpose(1, 0, 2).reshape(len(x), -1)
    R = heads(linear(mixed, wo, bo, R, epsilon), 2)
    Rs, Rv = product(s, v, R, epsilon)
    Rx = scaled * (Rs - s * Rs.sum(axis=-1, keepdims=True))
    Rq, Rk = product(q, k.transpose(0, 2, 1), Rx, epsilon)
    flat = [part.transpose(1, 0, 2).reshape(len(x), -1) for part in (Rq, Rk.transpose(0, 2, 1), Rv)]
    return sum(linear(x, w, b, part, epsilon) for (w, b), part in zip(parts[:3], flat, strict=True)), mixed @ wo + bo


def fork(a, b, R):
    """Relevance of a sum, split."""
    return R * a / (a + b), R * b / (a + b)


def encoder_by_hand(net, e, epsilon):
    """One layer of BERT or DistilBERT and its head; e (length, d) is the sum of the embeddings."""
    if hasattr(net, "bert"):
        base, layer = net.bert, net.bert.encoder.layer[0]
        own = layer.attention.self
        parts = [weights(m) for m in (own.query, own.key, own.value, layer.attention.output.dense)]
        norms = layer.attention.output.LayerNorm, layer.output.LayerNorm
        up, down, pool, squash = layer.intermediate.dense, layer.output.dense, net.bert.pooler.dense, np.tanh
    else:
        base, layer = net.distilbert, net.distilbert.transformer.layer[0]
        own = layer.attention
        parts = [weights(m) for m in (own.q_lin, own.k_lin, own.v_lin, own.out_lin)]
        norms = layer.sa_layer_norm, layer.output_layer_norm
        up, down, pool, squash = layer.ffn.lin1, layer.ffn.lin2, net.pre_classifier, lambda x: np.maximum(x, 0)
    x = norm(e, base.embeddings.LayerNorm)[0]
    _, mixed = attention_back(x, parts, False, np.zeros_like(x), epsilon)
    y = norm(mixed + x, norms[0])[0]
    (wu, bu), (wd, bd), (wp, bp), (wc, bc) = (weights(m) for m in (up, down, pool, net.classifier))
    inner = y @ wu + bu
    active = inner * (1 + erf(inner / np.sqrt(2))) / 2
    z = norm(active @ wd + bd + y, norms[1])[0]
    pooled = squash(z[0] @ wp + bp)
    logits = pooled @ wc + bc
    R = linear(pooled[None], wc, bc, (logits * [-1, 1])[None], epsilon)
    Rz = np.zeros_like(z)
    Rz[:1] = linear(z[:1], wp, bp, R, epsilon)
    Rd, Ry = fork(active @ wd + bd, y, norm_back(active @ wd + bd + y, norms[1], Rz))
    Ry = Ry + linear(y, wu, bu, linear(active, wd, bd, Rd, epsilon), epsilon)
    Rm, Rx = fork(mixed, x, norm_back(mixed + x, norms[0], Ry))
    Rx = Rx + attention_back(x, parts, False, Rm, epsilon)[0]
    return norm_back(e, base.embeddings.LayerNorm, Rx).sum(axis=1)


def decoder_by_hand(net, e, epsilon):
    """One block of GPT-2 and its head."""
    block = net.transformer.h[0]
    w, b = weights(block.attn.c_attn)
    thirds = zip(np.split(w, 3, axis=1), np.split(b, 3), strict=True)
    parts = [*thirds, weights(block.attn.c_proj)]
    x = norm(e, block.ln_1)[0]
    _, mixed = attention_back(x, parts, True, np.zeros_like(x), epsilon)
    h = mixed + e
    y = norm(h, block.ln_2)[0]
    (wu, bu), (wd, bd) = weights(block.mlp.c_fc), weights(block.mlp.c_proj)
    inner = y @ wu + bu
    active = inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))) / 2
    added = active @ wd + bd
    z = norm(added + h, net.transformer.ln_f)[0]
    wc = net.score.weight.detach().numpy().T
    Rz = np.zeros_like(z)
    Rz[-1:] = linear(z[-1:], wc, 0.0, (z[-1:] @ wc) * [-1, 1], epsilon)
    Rd, Rh = fork(added, h, norm_back(added + h, net.transformer.ln_f, Rz))
    Rh = Rh + norm_back(h, block.ln_2, linear(y, wu, bu, linear(active, wd, bd, Rd, epsilon), epsilon))
    Rm, Re = fork(mixed, e, Rh)
    return (Re + norm_back(e, block.ln_1, attention_back(x, parts, True, Rm, epsilon)[0])).sum(axis=1)


@cases("epsilon", [0.0, 0.05])
@cases("name", LAYERS)
def test_one_layer_by_the_rules_for_relevances(name, epsilon):
    net, words = network(name, 1, biases=True)
    found, _ = everywhere(net, words, epsilon=epsilon)
    ids = torch.tensor(words(TEXT)["input_ids"])
    with torch.no_grad():
        if name == "gpt2":
            e = (net.transformer.wte(ids) + net.transformer.wpe(torch.arange(len(ids)))).numpy()
        else:
            tables = net.base_model.embeddings
            e = tables.word_embeddings(ids) + tables.position_embeddings(torch.arange(len(ids)))
            e = (e + tables.token_type_embeddings(torch.zeros_like(ids)) if name == "bert" else e).numpy()
    by_hand = (decoder_by_hand if name == "gpt2" else encoder_by_hand)(net, e, epsilon)
    np.testing.assert_allclose(found, by_hand, rtol=1e-7, atol=1e-9 * np.abs(by_hand).max())


def test_of_two_classes_those_for_one_are_minus_those_for_the_other():
    net, words = network("bert", 1, biases=True)
    np.testing.assert_allclose(everywhere(net, words, 0)[0], -everywhere(net, words, 1)[0], rtol=1e-9)


def test_the_method_gives_the_text_its_share():
    net, words = network("bert", 2, biases=True)
    model = model_of(net, words)
    effects = AttnLRP().attribute(model, model.read(TEXT, "cut", None), 1, 0)
    np.testing.assert_allclose(effects, everywhere(net, words, epsilon=1e-6)[0][1:-1], rtol=1e-9)
    assert AttnLRP().signed


def test_other_architectures_are_refused():
    for name in set(ARCHITECTURES) - set(LAYERS):
        made, words = classifier(name)
        model = model_of(made, words)
        with pytest.raises(InputError, match="attnlrp supports BERT, DistilBERT and GPT-2 sequence classifiers; got"):
            AttnLRP().attribute(model, model.read(TEXT, "cut", None), 1, 0)


def test_a_layer_without_a_rule_is_refused():
    made, words = classifier("bert")
    made.classifier = torch.nn.Bilinear(32, 32, 2)
    made.forward, forward = (lambda *a, **k: torch.zeros(1, 2)), made.forward
    model = model_of(made, words)
    made.forward = forward
    with pytest.raises(InputError, match="attnlrp supports"):
        AttnLRP().attribute(model, model.read(TEXT, "cut", None), 1, 0)
