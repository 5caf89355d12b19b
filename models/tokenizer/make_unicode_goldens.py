"""Writes what unicode_test.cc expects, from Python's own copy of the Unicode Character Database.

    python3 models/tokenizer/make_unicode_goldens.py > models/tokenizer/testdata/assigned_code_points.txt

The file lists the code points that are assigned in that version (Python 3.11: Unicode 14.0), because the library that
is tested may know a later one. Digests over these code points go to standard error, and from there into the test.
"""

import sys
import unicodedata


def assigned():
    return [c for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def ranges(codes):
    found = []
    for c in codes:
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def digest(texts):
    """FNV-1a, 64 bits, over the UTF-8 of each text with a newline after it."""
    value = 0xCBF29CE484222325
    for text in texts:
        for byte in text.encode() + b"\n":
            value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def main():
    codes = assigned()
    for first, last in ranges(codes):
        print(f"{first:x} {last:x}")

    def each(name, f):
        print(f"{name:16} {digest(f(chr(c)) for c in codes):#018x}", file=sys.stderr)

    each("classes", lambda c: {"L": "L", "N": "N"}.get(unicodedata.category(c)[0], "-"))
    each("lowercase", str.lower)
    for prefix in ["", "e\u0301", "\u1100", "\uac00"]:
        each(f"nfc {prefix!a}", lambda c: unicodedata.normalize("NFC", prefix + c))


if __name__ == "__main__":
    main()
