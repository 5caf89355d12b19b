"""Writes unicode_tables.cc from Python's own copy of the Unicode Character Database.

    python3 models/tokenizer/make_unicode_tables.py > models/tokenizer/unicode_tables.cc
    python3 models/tokenizer/make_unicode_tables.py --digests     # the numbers in unicode_test.cc

The version of the database is that of the Python which runs this (3.11: Unicode 14.0) and is noted in the output.
"""

import sys
import unicodedata

SURROGATES = range(0xD800, 0xE000)
HANGUL = range(0xAC00, 0xD7A4)  # composed and decomposed by arithmetic, not by table


def code_points():
    return (c for c in range(sys.maxunicode + 1) if c not in SURROGATES)


def ranges_of(categories):
    ranges = []
    for c in code_points():
        if unicodedata.category(chr(c))[0] not in categories:
            continue
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return ranges


def lowercase_ranges():
    """Runs first..last by `step` whose members all move by the same distance."""
    runs = []
    for c in code_points():
        low = chr(c).lower()
        if low == chr(c) or len(low) > 1:  # only U+0130 gives two; unicode.cc has it by hand
            continue
        delta = ord(low) - c
        if runs and runs[-1][3] == delta:
            first, last, step, _ = runs[-1]
            gap = c - last
            if gap <= 2 and (first == last or gap == step):
                runs[-1][1:3] = [c, gap]
                continue
        runs.append([c, c, 1, delta])
    return runs


def combining_class_ranges():
    runs = []
    for c in code_points():
        value = unicodedata.combining(chr(c))
        if value == 0:
            continue
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == value:
            runs[-1][1] = c
        else:
            runs.append([c, c, value])
    return runs


def decompositions():
    """One step of canonical decomposition, and whether NFC puts the pair together again."""
    rows = []
    for c in code_points():
        text = unicodedata.decomposition(chr(c))
        if not text or text.startswith("<") or c in HANGUL:
            continue
        parts = [int(p, 16) for p in text.split()] + [0]
        composes = len(parts) == 3 and unicodedata.normalize("NFC", chr(parts[0]) + chr(parts[1])) == chr(c)
        rows.append([c, parts[0], parts[1], int(composes)])
    return rows


def check_tails(rows):
    codes = {row[0] for row in rows}
    assert not any(row[2] in codes for row in rows), "unicode.cc counts on tails that decompose no further"


def digest(texts):
    """FNV-1a, 64 bits, over the UTF-8 of each text with a newline after it."""
    value = 0xCBF29CE484222325
    for text in texts:
        for byte in text.encode() + b"\n":
            value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def print_digests():
    def each(f):
        return digest(f(chr(c)) for c in code_points())

    def class_of(char):
        return {"L": "L", "N": "N"}.get(unicodedata.category(char)[0], "-")

    print(f"classes   {each(class_of):#018x}")
    print(f"lowercase {each(str.lower):#018x}")
    for prefix in ["", "e\u0301", "\u1100", "\uac00"]:
        print(f"nfc {prefix!a:10} {each(lambda c: unicodedata.normalize('NFC', prefix + c)):#018x}")


def emit(kind, name, rows):
    print(f"const {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        cell = " {" + ",".join(f"{v:#x}" if v > 9 else str(v) for v in row) + "},"
        if len(line) + len(cell) > 118:
            print(line)
            line = "   "
        line += cell
    print(line)
    print("};")
    print(f"const int {name}Count = {len(rows)};\n")


def main():
    if "--digests" in sys.argv:
        print_digests()
        return
    check_tails(decompositions())
    print("// Written by make_unicode_tables.py from the Unicode Character Database "
          f"{unicodedata.unidata_version}; do not edit.")
    print("// clang-format off")
    print('#include "models/tokenizer/unicode_tables.h"\n')
    print("namespace dpipe::unicode {\n")
    emit("CodeRange", "kLetters", ranges_of("L"))
    emit("CodeRange", "kNumbers", ranges_of("N"))
    emit("LowercaseRun", "kLowercase", lowercase_ranges())
    emit("CombiningRun", "kCombining", combining_class_ranges())
    emit("Decomposition", "kDecompositions", decompositions())
    print("}  // namespace dpipe::unicode")


if __name__ == "__main__":
    main()
