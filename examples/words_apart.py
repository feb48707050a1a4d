"""Where do the words end? Beam search over sentences written without spaces.

A word scores by how often it was seen, or by its letters if it was never seen. The
search keeps the best beginnings of a sentence, adds a word to each, and goes on until
all of them have reached the end. Only then is it known how many steps this takes, and
how many words there are. The score of the best sentence has a gradient, which goes
backwards through the search: it is the features of the words that were taken. So the
structured perceptron (Collins, 2002) learns the weights. Its loss is by how much the
search's answer scores better than the right one.

The text is Python's own help about the language. No answer may score better than the
best of all (Viterbi), the gradient must be the features of the answer, and JAX must
give the same as NumPy. The learning curve is drawn into words_apart.png.
Run it: python examples/words_apart.py
"""

import re
import sys
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import graphc
import graphc.tensor as gt

LONGEST, WIDTH = 14, 12  # most letters of a word, beginnings that are kept
TRAIN, TEST, EPOCHS = 120, 60, 6
FEATURES = ("how often it was seen", "never seen", "letters never seen", "a word")


def texts() -> tuple[list[list[str]], Counter[str]]:
    """Return the words of sentences in Python's help, and word counts of other text."""
    text = " ".join(" ".join(topics[name].split()) for name in sorted(topics))
    prose = re.compile(r"(?<=\. )[A-Z][a-z]+(?:,? [a-z]+){5,14}(?=\.)")
    found = dict.fromkeys(m.group() for m in prose.finditer(text))
    rest = re.findall(r"\b[a-z]+\b", prose.sub("", text))
    split = [re.findall("[a-z]+", sentence.lower()) for sentence in found]
    fit = [words for words in split if max(map(len, words)) <= LONGEST]
    order = np.random.default_rng(0).permutation(len(fit))
    return [fit[i] for i in order[: TRAIN + TEST]], Counter(rest)


def encoded(words: list[str], seen: Counter[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of each possible word as [i, l], and where words end."""
    text, total = "".join(words), seen.total()
    features = np.zeros((len(text), LONGEST, len(FEATURES)))
    for i in range(len(text)):
        for length in range(1, LONGEST + 1):
            count = seen[text[i : i + length]]
            known = [np.log(count / total), 0, 0, 1] if count else [0, 1, length, 1]
            features[i, length - 1] = known
    return features, np.cumsum([len(w) for w in words]).astype("int32")


def search(table: Any) -> tuple[Any, Any]:
    """Return the score of the best sentence found, and where its words end."""
    n = table.shape[0]
    lengths = gt.arange(1, LONGEST + 1, dtype="int64")

    def going_on(beam: dict[str, Any]) -> Any:
        return gt.any(beam["place"] < n)

    def longer(beam: dict[str, Any]) -> dict[str, Any]:
        place, score = beam["place"], beam["score"]
        done = place >= n
        after = place[:, None] + lengths
        fits = (after <= n) & gt.isfinite(score)[:, None]
        more = score[:, None] + table[gt.minimum(place, n - 1)]
        stays = done[:, None] & (lengths == 1)
        each = gt.where(fits, more, -np.inf)
        each = gt.ravel(gt.where(stays, score[:, None], each))
        after = gt.ravel(gt.where(fits, after, n))
        rank = graphc.stop_gradient(each) / after  # per letter, to be fair
        _, best = gt.top_k(rank, WIDTH)
        place = after[best]
        ends = beam["ends"][best // LONGEST]
        ends = ends.at[gt.arange(WIDTH), place - 1].set(True)
        return {"place": place, "score": each[best], "ends": ends}

    start = {
        "place": gt.zeros(WIDTH, dtype="int64"),
        "score": gt.where(gt.arange(WIDTH) == 0, 0.0, -np.inf).astype(table.dtype),
        "ends": gt.zeros((WIDTH, n), dtype="bool"),
    }
    last = gt.while_loop(going_on, longer, start)
    best = gt.argmax(last["score"])
    return last["score"][best], gt.flatnonzero(last["ends"][best]) + 1


def compiled(backend: str) -> tuple[Any, Any]:
    """Compile a sentence's loss and gradient; and its best score, slope and answer."""
    weights = gt.tensor("weights", "float64", (len(FEATURES),))
    features = gt.tensor("features", "float64", ("letters", LONGEST, len(FEATURES)))
    ends = gt.tensor("ends", "int32", ("words",))
    table = features @ weights
    score, found = search(table)
    starts = gt.concatenate([gt.zeros(1, dtype="int32"), ends[:-1]])
    loss = score - gt.sum(table[starts, ends - starts - 1])
    learn = [loss, graphc.grad(loss, weights)]
    answer = [score, graphc.grad(score, weights), found]
    return (
        graphc.function([weights, features, ends], learn, backend=backend),
        graphc.function([weights, features], answer, backend=backend),
    )


def viterbi(table: np.ndarray) -> float:
    """Return the best score of all sentences."""
    best = np.append(0.0, np.full(len(table), -np.inf))
    for i, row in enumerate(table):
        for length, score in enumerate(row[: len(table) - i], start=1):
            best[i + length] = max(best[i + length], best[i] + score)
    return float(best[-1])


def learned(learn: Any, data: list[Any]) -> tuple[np.ndarray, list[float]]:
    """Return the weights, averaged over steps, and the mean loss of each epoch."""
    weights, total, losses = np.zeros(len(FEATURES)), np.zeros(len(FEATURES)), []
    for _ in range(EPOCHS):
        lost = 0.0
        for features, ends in data:
            loss, slope = learn(weights, features, ends)
            weights = weights - slope / 10
            total += weights
            lost += float(loss)
        losses.append(lost / len(data))
    return total / (EPOCHS * len(data)), losses


def agreement(answer: Any, weights: Any, data: list[Any]) -> tuple[float, bool]:
    """Return the share of words found, and whether scores and slopes are right."""
    right = words = 0
    agree = True
    for features, ends in data:
        score, slope, found = map(np.asarray, answer(weights, features))
        starts = np.array([0, *found[:-1]])
        agree &= float(score) <= viterbi(features @ weights) + 1e-9
        agree &= np.allclose(slope, features[starts, found - starts - 1].sum(0))
        spans = [set(zip([0, *e[:-1]], e, strict=True)) for e in (ends, found)]
        right += len(spans[0] & spans[1])
        words += len(ends)
    return right / words, agree


def draw(losses: list[float], path: Path) -> None:
    """Draw the learning curve."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, len(losses) + 1), losses, marker="o")
    axes.set(xlabel="times read", ylabel="loss per sentence", ylim=(0, None))
    figure.savefig(path, dpi=120)


def main() -> int:
    """Learn, split new sentences and compare; return 0 if everything agrees."""
    text, seen = texts()
    data = [encoded(words, seen) for words in text]
    learn, answer = compiled("numpy")
    weights, losses = learned(learn, data[:TRAIN])
    draw(losses, Path("words_apart.png"))
    print("loss per sentence:", *(f"{loss:.2f}" for loss in losses))
    for name, weight in zip(FEATURES, weights, strict=True):
        print(f"  {name}: {weight:.2f}")

    found, agree = agreement(answer, weights, data[TRAIN:])
    print(f"words found in new sentences: {found:.0%}")
    features, _ = data[TRAIN]
    ends = answer(weights, features)[2]
    letters = "".join(text[TRAIN])
    starts = [0, *ends[:-1]]
    print(" ".join(letters[i:j] for i, j in zip(starts, ends, strict=True)))

    on_jax = compiled("jax")[1](weights, features)
    pairs = zip(answer(weights, features), on_jax, strict=True)
    agree &= all(np.allclose(a, b, rtol=1e-12, atol=1e-9) for a, b in pairs)
    print("everything agrees" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
