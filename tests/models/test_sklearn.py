"""A contract over scikit-learn estimators: what is reported is what `predict` and `predict_proba` say."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import (
    LogisticRegression,
    SGDClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, LinearSVC

from slalom import Explainer
from slalom.errors import InputError, ModelError
from slalom.models import scikit_learn
from tests.cases import cases
from tests.models.tiny import QUICK

WORDS = ["good", "great", "fine", "bad", "awful", "dull", "film", "plot", "cast", "the", "was", "very"]
RNG = np.random.default_rng(0)
TEXTS = [" ".join(RNG.choice(WORDS, 6)) for _ in range(90)]
SIGNS = [sum(w in t.split() for w in WORDS[:3]) - sum(w in t.split() for w in WORDS[3:6]) for t in TEXTS]
TWO = np.array(["neg" if s < 0 else "pos" for s in SIGNS])
THREE = np.array(["neg" if s < 0 else "mid" if s == 0 else "pos" for s in SIGNS])
ASKED = ["the film was very good", "awful plot and dull cast", "fine but bad", "the cast"]


def dense():
    return FunctionTransformer(lambda table: table.toarray(), accept_sparse=True)


def fitted(classifier, labels, *steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(TfidfVectorizer(token_pattern=r"\w+"), *steps, classifier).fit(TEXTS, labels)


def searched(search):
    pipeline = make_pipeline(
        TfidfVectorizer(lowercase=True, tokenizer=lambda text: text.split(), token_pattern=None), LogisticRegression()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search(pipeline, {"logisticregression__C": [0.5, 5.0]}, cv=3).fit(TEXTS, TWO)


KINDS = {
    "LogisticRegression": lambda y: fitted(LogisticRegression(), y),
    "SGD log loss": lambda y: fitted(SGDClassifier(loss="log_loss", random_state=0), y),
    "SGD hinge": lambda y: fitted(SGDClassifier(random_state=0), y),
    "SVC probability": lambda y: fitted(CalibratedClassifierCV(SVC(), ensemble=False, cv=3), y),
    "SVC": lambda y: fitted(SVC(), y),
    "LinearSVC": lambda y: fitted(LinearSVC(), y),
    "OneVsRest": lambda y: fitted(OneVsRestClassifier(LogisticRegression()), y),
    "MultinomialNB": lambda y: fitted(MultinomialNB(), y),
    "KNeighbors": lambda y: fitted(KNeighborsClassifier(15), y),
    "RandomForest": lambda y: fitted(RandomForestClassifier(20, max_depth=3, random_state=0), y),
    "AdaBoost": lambda y: fitted(AdaBoostClassifier(n_estimators=5), y),
    "MLP": lambda y: fitted(MLPClassifier(8, max_iter=30, random_state=0), y),
    "LDA": lambda y: fitted(LinearDiscriminantAnalysis(), y, dense()),
    "Calibrated": lambda y: fitted(CalibratedClassifierCV(LinearSVC(), cv=2), y),
    "Voting soft": lambda y: fitted(VotingClassifier([("a", LogisticRegression()), ("b", MultinomialNB())], voting="soft"), y),
    "Stacking": lambda y: fitted(StackingClassifier([("a", LinearSVC()), ("b", MultinomialNB())], cv=2), y),
}
ONLY_TWO = {
    "FixedThreshold": lambda y: fitted(FixedThresholdClassifier(LogisticRegression(), threshold=0.8), y),
    "TunedThreshold": lambda y: fitted(TunedThresholdClassifierCV(LogisticRegression(), cv=2, random_state=0), y),
    "GridSearch": lambda y: searched(GridSearchCV),
    "RandomizedSearch": lambda y: searched(lambda *a, **k: RandomizedSearchCV(*a, n_iter=2, random_state=0, **k)),
}


@pytest.mark.filterwarnings("ignore:.*returned probabilities below")
@cases(
    ("name", "make", "labels"),
    [
        *((name, make, TWO) for name, make in {**KINDS, **ONLY_TWO}.items()),
        *(
            (name, KINDS[name], THREE)
            for name in ("LogisticRegression", "SVC", "LinearSVC", "OneVsRest", "MultinomialNB", "LDA")
        ),
    ],
)
def test_label_probability_and_score_are_the_models_own(name, make, labels):
    estimator = make(labels)
    model = scikit_learn(estimator)
    outputs = model.collect(model.submit(ASKED))
    decisions = model.decisions(ASKED, outputs)
    assert [decision.label for decision in decisions] == [str(label) for label in estimator.predict(ASKED)]
    assert model.head.labels == tuple(map(str, estimator.classes_))
    for column in range(len(model.head.labels)):
        if hasattr(estimator, "predict_proba"):
            shares = estimator.predict_proba(ASKED)
            assert np.allclose([decision.probabilities for decision in decisions], shares, rtol=0, atol=1e-12)
            assert model.head.scale == "log odds"
            expected = logit(np.clip(shares[:, column], 1e-9, 1 - 1e-9))
        else:
            assert all(decision.probabilities is None for decision in decisions)
            assert model.head.scale == "decision value"
            values = estimator.decision_function(ASKED)
            expected = values[:, column] if values.ndim == 2 else values if column else -values
        assert model.head.scores(outputs, column) == pytest.approx(expected, abs=1e-5)


def test_exact_log_odds_are_taken_where_the_model_has_them():
    model = fitted(LogisticRegression(C=1e12, max_iter=10_000), TWO)
    e = Explainer(model, **QUICK, unit="word")("good great fine")
    assert abs(e.score) > 25  # a probability of 1 - 1e-11, which its logarithm would not tell
    assert e.score == pytest.approx(float(model.decision_function(["good great fine"])[0]), rel=1e-12)


def test_one_that_decides_pairs_is_refused_without_probabilities():
    with pytest.raises(InputError, match="decides between pairs of classes"):
        Explainer(fitted(SVC(decision_function_shape="ovo"), THREE))
    model = fitted(OneVsOneClassifier(LinearSVC()), THREE)  # its votes are one column a class
    e = Explainer(model, **QUICK)(ASKED[0])
    assert e.prediction == (str(model.predict(ASKED[:1])[0]), None)


@cases(
    ("classifier", "message"),
    [
        (VotingClassifier([("a", LogisticRegression()), ("b", MultinomialNB())]), 'only labels.*voting="soft"'),
        (OutputCodeClassifier(LogisticRegression(), random_state=0), "only labels"),
    ],
)
def test_labels_alone_are_refused(classifier, message):
    with pytest.raises(InputError, match=message) as caught:
        Explainer(fitted(classifier, THREE))
    assert "\n" not in str(caught.value)


INDICATORS = np.stack([TWO == "pos", THREE == "mid"], axis=1).astype(int)


@cases(
    "classifier",
    [
        MultiOutputClassifier(LogisticRegression()),
        ClassifierChain(LogisticRegression()),
        OneVsRestClassifier(LogisticRegression()),
        KNeighborsClassifier(9),
        RandomForestClassifier(10, random_state=0),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
@pytest.mark.filterwarnings("ignore:.*returned probabilities below")
def test_several_binary_outputs_are_independent_labels(classifier):
    model = fitted(classifier, INDICATORS)
    e = Explainer(model, **QUICK, unit="word", target=0)(ASKED[0])
    shares = model.predict_proba(ASKED[:1])
    own = [part[0, -1] for part in shares] if isinstance(shares, list) else shares[0]
    assert np.allclose(e.probabilities, own, rtol=0, atol=1e-12)
    assert expit(e.score) == pytest.approx(own[0], abs=1e-8)
    assert e.prediction == (e.labels[int(np.argmax(own))], pytest.approx(max(own)))


def test_outputs_with_more_classes_are_refused_in_one_line():
    both = np.stack([TWO, THREE], axis=1)
    with pytest.raises(InputError, match=r"output 1 has 3 classes.*one at a time"):
        Explainer(fitted(MultiOutputClassifier(MultinomialNB()), both))


def test_one_that_takes_no_strings_is_refused():
    table = CountVectorizer().fit_transform(TEXTS)
    with pytest.raises(ModelError, match="put it into a pipeline after a vectorizer"):
        Explainer(LogisticRegression().fit(table, TWO))


def test_the_predicted_class_is_explained_where_its_score_is_not_the_highest():
    class Contrary(LogisticRegression):
        def predict(self, X):
            return self.classes_[self.predict_proba(X).argsort(axis=1)[:, -2]]

    model = fitted(Contrary(), THREE)
    for text, e in zip(ASKED, Explainer(model, **QUICK, unit="word")(ASKED), strict=True):
        assert e.target == e.prediction[0] == str(model.predict([text])[0])
    every = Explainer(model, queries=20, check=0, unit="word", target="all")(ASKED[0])
    assert every.labels[every.leading] == every.prediction[0]


def test_decision_values_are_no_log_odds_by_chance():
    texts, labels = ["good film", "great fun", "bad film", "dull mess", "fine show", "so so"] * 20, [1, 1, 0, 0, 2, 2] * 20
    model = make_pipeline(HashingVectorizer(n_features=256), OneVsRestClassifier(LogisticRegression(fit_intercept=False))).fit(
        texts, labels
    )
    e = Explainer(model, **QUICK)("a good film and fun")
    share = model.predict_proba(["a good film and fun"])[0].max()
    assert e.score == pytest.approx(logit(share), abs=1e-9)


def test_one_class_is_no_decision_and_two_classes_are_one_pair():
    with pytest.raises(InputError, match="has only one class, 'pos'"):
        Explainer(fitted(MultinomialNB(), np.array(["pos"] * len(TEXTS))))
    e = Explainer(fitted(SVC(decision_function_shape="ovo"), TWO), **QUICK)(ASKED[0])
    assert e.scale == "decision value"
