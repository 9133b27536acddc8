"""What a name looks like: two names with a form in common differ only by case or look.

The table is our own: the letters of other scripts that are drawn as Latin ones are few. Unicode's
list of confusable signs has thousands, mostly of signs that nobody calls a class by.
"""

import re
import unicodedata

# By Latin letter, those of Cyrillic, Greek, Armenian, Cherokee and phonetics that look like it.
# Fullwidth, mathematical and circled ones and ligatures are not here: NFKC makes letters of them.
LOOK_LIKE = {
    '"': "\u201c\u201d\u201f\u2033",
    "'": "\u2018\u2019\u201b\u2032\u00b4\u02b9\u02bb\u02bc\u02bd`",
    "-": "\u2010\u2012\u2013\u2014\u2015\u2212",
    "A": "\u0410\u0391\u13aa",
    "B": "\u0412\u0392\u13f4",
    "C": "\u0421\u03f9\u13df",
    "D": "\u13a0",
    "E": "\u0415\u0395\u13ac",
    "G": "\u050c\u13c0",
    "H": "\u041d\u0397\u13bb",
    "I": "\u0406\u04c0\u0399",
    "J": "\u0408\u037f\u13ab",
    "K": "\u041a\u039a\u13e6",
    "L": "\u13de",
    "M": "\u041c\u039c\u13b7",
    "N": "\u039d",
    "O": "\u041e\u039f\u0555",
    "P": "\u0420\u03a1\u13e2",
    "Q": "\u051a",
    "R": "\u13a1",
    "S": "\u0405\u054f\u13da",
    "T": "\u0422\u03a4\u13a2",
    "U": "\u054d",
    "V": "\u13d9",
    "W": "\u051c\u13b3",
    "X": "\u0425\u03a7",
    "Y": "\u0423\u04ae\u03a5",
    "Z": "\u0396\u13c3",
    "a": "\u0430\u03b1\u0251",
    "c": "\u0441\u03f2",
    "d": "\u0501",
    "e": "\u0435",
    "g": "\u0581\u0261",
    "h": "\u04bb\u0570",
    "i": "\u0456\u03b9\u0131\u0269",
    "j": "\u0458\u03f3\u0575",
    "k": "\u03ba",
    "l": "\u04cf",
    "n": "\u0578",
    "o": "\u043e\u03bf\u0585",
    "p": "\u0440\u03c1",
    "q": "\u051b\u0566",
    "s": "\u0455",
    "u": "\u03c5\u057d",
    "v": "\u03bd",
    "w": "\u051d",
    "x": "\u0445\u03c7",
    "y": "\u0443\u04af\u03b3",
}
PLAIN = str.maketrans({odd: latin for latin, odds in LOOK_LIKE.items() for odd in odds})
STROKES = str.maketrans({"I": "l", "1": "l", "|": "l", "0": "O"})  # alike in many fonts
VARIANTS = re.compile(r"[\u180b-\u180d\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # of the sign before


def forms(name: str) -> set[str]:
    """Return what is left of a name without what only case, width or script make of it.

    Names of letters that have no Latin look are compared by case alone; and an I may be an l, but
    an i is none.
    """
    whole = unicodedata.normalize("NFKC", VARIANTS.sub("", name))
    plain = whole.translate(PLAIN)
    return {folded(text) for text in (whole, plain, plain.translate(STROKES))}


def folded(text: str) -> str:
    """Return a text without case, and with single spaces."""
    dotted = unicodedata.normalize("NFKC", text.casefold()).replace("i\u0307", "i")
    return " ".join(dotted.split())
