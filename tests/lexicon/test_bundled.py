"""The lexicon that ships with slalom is of the classifier that ships with it."""

import pytest

from slalom import Explainer, Lexicon
from slalom.errors import InputError
from tests.factories import python

TEXT = "The first half is dull. The second half is one of the best things I have seen in years."


def test_it_has_the_answers_of_the_bundled_classifier():
    found, explainer = Lexicon.load("bundled"), Explainer(progress=False)
    found.check(explainer.engine, "token")
    chosen = [word for word in ("dull", "best", "film") if word in found.words]
    assert len(chosen) == 3
    empty = explainer.decide([""])[0][0]
    for word in chosen:
        assert found.alone[found.words.index(word), 0] == pytest.approx(explainer.decide([word])[0][0] - empty, abs=1e-4)


def test_an_explanation_begins_with_it():
    e = Explainer(prior="bundled", queries=0, progress=False)(TEXT)
    assert e.queries <= 3
    assert {e.units[i] for i in e.strongest(2)} == {"best", "dull"}
    tested = Explainer(prior="bundled", queries=50, progress=False)(TEXT)
    assert tested.fidelity.far.r2 > 0.9


def test_it_is_that_of_the_same_classifier_in_torch_too():
    pytest.importorskip("torch")
    in_torch = Explainer(prior="bundled", queries=0, progress=False, device="cpu")
    assert type(in_torch.model).__name__ == "HuggingFace"
    assert in_torch(TEXT).queries <= 3  # inputs have the same keys
    changed = Explainer(device="cpu", progress=False)
    next(changed.model.model.parameters()).data += 0.01
    with pytest.raises(InputError, match="learnt from another model"):
        changed.with_prior(Lexicon.load("bundled"))


def test_without_a_lexicon_nothing_that_learns_one_is_imported(tmp_path):
    code = """
        import slalom
        slalom.Explainer(progress=False)
        print([name for name in ("scipy.optimize", "pyarrow") if name in sys.modules])
    """
    assert python(tmp_path, code).stdout.strip() == "[]"
