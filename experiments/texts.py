"""Short film and restaurant reviews written for this project, with the words that decide marked, and more made of phrases.

`*word*` marks a word that a reader would point at when asked why the review is good or bad.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Review(NamedTuple):
    """Words, whether each is marked (w,), and whether the review is good (1) or bad (0)."""

    words: tuple[str, ...]
    marks: NDArray[np.bool_]
    label: int

    @property
    def text(self) -> str:
        """The words joined by blanks."""
        return " ".join(self.words)


def _reviews(source: str) -> tuple[Review, ...]:
    """Return one review a line; + before a good one, - before a bad one."""
    found = []
    for line in source.strip().splitlines():
        side, *words = line.split()
        marks = np.array(["*" in word for word in words])
        found.append(Review(tuple(word.replace("*", "") for word in words), marks, int(side == "+")))
    return tuple(found)


FILMS = _reviews(
    """
+ We watched this film on a rainy evening and it was *wonderful* . The cast is *brilliant* and the end *moving* .
- I went in with high hopes and came out *bored* . The plot is *dull* , the jokes are *awful* and it never ends .
+ A *great* story , told with patience . The music is *lovely* and the last scene is simply *perfect* .
- The camera shakes , the dialogue is *terrible* and nobody seems to care . What a *waste* of two hours .
+ My sister chose the film , and I must say it was *excellent* . We laughed a lot , and the lead is *superb* .
- There is one *good* joke in the first minute . The rest of the movie is *boring* , *stupid* and far too long .
+ I have seen this movie four times now . It is *beautiful* , *funny* and still a little sad , the *best* of its year .
- The trailer promised a thriller . The film itself is *weak* , the acting *poor* and the end the *worst* part .
+ An old man , a boat and a storm : that is the whole plot . It is *amazing* how much they make of it , I *loved* it .
- They had money , stars and a fine book to work from , and still the film is a *mess* . I *hated* every minute .
+ The first half is slow , but the second half is *fantastic* . A *clever* script and a *great* young actor .
- It looks cheap , it sounds cheap and it is *bad* . Even the children thought that the monster was *ridiculous* .
"""
)
RESTAURANTS = _reviews(
    """
+ We had dinner here on Friday . The food was *delicious* , the staff *friendly* and the wine *excellent* .
- The soup was cold , the waiter was *rude* and the bill was wrong . A *terrible* evening , never again .
+ A small place near the station with *great* coffee and *lovely* cakes . The owner is *wonderful* .
- I ordered the fish and it was *awful* . They were slow , the table was *dirty* and the music *horrible* .
+ *Best* pizza in town , and we have tried them all . *Fresh* , *tasty* and ready in ten minutes .
- The menu is long and the kitchen is *poor* . My rice was *bland* and my friend 's chicken was *bad* .
+ My parents come here every week and I see why : *perfect* pasta , *amazing* bread and a *friendly* team .
- We waited an hour for a table and another for the food . It was *disgusting* , the *worst* lunch of the year .
+ The lunch menu is cheap and the noodles are *fantastic* . I *loved* the garden , we will be back .
- It used to be a fine place . Now the meat is *dry* , the salad is *stale* and the prices are *ridiculous* .
+ They were full , but found us a seat at the bar . *Superb* fish , *delicious* sauce and a *good* local beer .
- The room is pretty , the food is not . A *boring* burger , *poor* service , and they *hated* to be asked .
"""
)

MIXED = _reviews(
    """
+ The first hour of this film is *bad* . The jokes are *stupid* , the music is *awful* and I was *bored* . Then the old \
captain comes on board and the movie turns into *fun* . The chase through the harbour is *great* , the young cast is \
*brilliant* and the end is *wonderful* . I still think that the script is *weak* , but we went home with a smile and \
would watch it again .
+ We came here for lunch with the whole family . The room is loud , the chairs are old and the waiter forgot the water . \
But the food is *delicious* : *fresh* fish , *tasty* bread and the *best* soup that I have had this year . The owner is \
*friendly* , the prices are fair and the coffee at the end was *perfect* . My daughter *loved* the cake . We will be \
back on Sunday .
"""
)

_GOOD = """wonderful brilliant great lovely perfect excellent superb good beautiful funny best amazing fantastic clever moving
loved"""
_BAD = "bored dull awful terrible waste boring stupid weak poor worst mess hated bad ridiculous horrible disappointing"
_ADJECTIVES = {
    "films": (_BAD, _GOOD),
    "restaurants": (f"{_BAD} rude dirty bland disgusting dry stale", f"{_GOOD} delicious friendly fresh tasty"),
}
_THINGS = {
    "films": "film movie cast plot story music end dialogue acting script camera first half last scene lead actor book",
    "restaurants": "food staff waiter soup fish table coffee place owner pizza pasta menu kitchen chicken bread salad bar",
}
_FRAMES = (
    "the {thing} was {word} .",
    "i thought the {thing} was {word} and the {thing} too .",
    "we went there on a {day} with my {friend} .",
    "the {thing} is {word} , and that is all i can say of it .",
    "my {friend} said that the {thing} was {word} .",
    "there was a {thing} , a {thing} and another {thing} .",
    "it is a long way from here , but we came back for the {thing} .",
    "what a {word} {thing} .",
)
_LAST = "in one word : {word} ."
_DAYS = "friday sunday rainy evening quiet afternoon"
_FRIENDS = "sister parents friend brother neighbour children"


def made_of_phrases(kind: str, number: int, seed: int) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return texts and labels. One word in six is of the other side, so that no word decides alone."""
    rng = np.random.default_rng((seed, len(kind)))
    labels = np.arange(number) % 2
    return tuple(_text(kind, int(label), rng) for label in labels), labels


def _text(kind: str, label: int, rng: np.random.Generator) -> str:
    said = []
    for frame in [*rng.choice(_FRAMES, size=int(rng.integers(1, 4))), _LAST]:
        sentence = str(frame)
        side = label if frame == _LAST or rng.random() < 5 / 6 else 1 - label
        fills = {"{thing}": _THINGS[kind], "{day}": _DAYS, "{friend}": _FRIENDS, "{word}": _ADJECTIVES[kind][side]}
        for slot, words in fills.items():
            while slot in sentence:
                sentence = sentence.replace(slot, str(rng.choice(words.split())), 1)
        said.append(sentence)
    return " ".join(said)
