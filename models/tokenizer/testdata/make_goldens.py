"""Writes goldens.jsonl: texts, and the ids that transformers' CLIPTokenizer gives them.

    pip install transformers
    python3 models/tokenizer/testdata/make_goldens.py --texts > /tmp/texts.jsonl
    bazel run //models/tokenizer:train_bpe -- --captions=/tmp/texts.jsonl --max_merges=400 --max_length=24 \
        --out=$PWD/models/tokenizer/testdata/mixed
    python3 models/tokenizer/testdata/make_goldens.py > models/tokenizer/testdata/goldens.jsonl

`mixed` is a vocabulary learnt from the texts themselves, so that merges happen in every script. Its
special_tokens_map.json has "!" for padding, as Stable Diffusion 2's has, set by this script. The other vocabulary is
data/tiny_sd/tokenizer. The goldens checked in are those of transformers 5.23.0, tokenizers 0.23.3.
"""

import json
import pathlib
import random
import sys
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent
TINY_SD = HERE.parents[2] / "data" / "tiny_sd" / "tokenizer"

BY_HAND = [
    "", " ", "\n\t ", "a", "A", "a large red circle", "a large red circle left of a small blue square",
    "an orange star on a gray background", "A LARGE RED CIRCLE", "a  large\tred\n\ncircle", " padded ",
    "it's", "IT'S", "they're we've I'm he'd you'll don't", "o'clock rock'n'roll 'tis ''s 's s' '", "x's'y",
    "42", "3.14159", "1,000,000", "2x4", "4K 8bit mp3", "½ cup", "x²", "Ⅷ Ⅻ", "１２３", "٠١٢٣", "①②",
    "hello, world!", "wow!!!", "...", "a...b", "(parentheses) [brackets] {braces}", "<html></html>", "a/b\\c|d",
    "user@example.com", "https://example.com/a?b=c&d=e#f", "#hashtag @mention", "$5.00 €10 £3 ¥100", "50%", "C++ C# F#",
    "!", "!!", "hello!", "a ! b", "!a", "\"quoted\" 'single' “curly” ‘curly’ «guillemets»", "em—dash en–dash hy-phen",
    "café", "cafe\u0301", "CAFÉ", "naïve façade", "Ångström \u212bngstro\u0308m", "Müller Straße ẞ", "ﬁ ﬂ ligatures",
    "Ελλάδα ΣΟΦΟΣ σοφος ά", "Москва Ёлка ёлка Й и\u0306", "İstanbul I ı i", "Tiếng Việt ế e\u0302\u0301", "Łódź ǅ Ǆ ǆ",
    "日本語 テキスト ﾃｷｽﾄ ガ カ\u3099", "中文字符", "한국어 \u1112\u1161\u11ab", "עברית שלום", "العربية مَرْحَبًا", "हिन्दी नमस्ते", "ไทย สวัสดี",
    "ქართული ᲥᲐᲠᲗᲣᲚᲘ", "Հայերեն", "አማርኛ", "ᏣᎳᎩ ꮳꮃꭹ", "𝒜𝓁𝓅𝒽𝒶 𝟙𝟚𝟛", "𐐀𐐨 𞤀𞤢",
    "😀", "🎉🎊", "a 🐱 cat", "👩‍👩‍👧‍👦 family", "👍🏽", "🇩🇪🇫🇷", "❤️", "☃", "a😀b", "1️⃣",
    "\u00a0nbsp\u00a0", "a\u200bb", "a\u200db", "\u3000ideographic\u3000", "a\u2028b", "a\u00adb", "\ufeffbom", "\x00nul", "a\x07b", "a\x85b",
    "s\u0307\u0323 q\u0307\u0323", "e\u0301\u0301", "\u0344", "\u0958", "\u2126 \u212a", "\ufb1d", "a\u0315\u0300\u05ae\u0062",
    "\ufffd", "\U0010ffff", "\ue000", "supercalifragilisticexpialidocious", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "a " * 60, "red " * 22, "red " * 21, "red " * 23, "!" * 40, "a!" * 30, "antidisestablishmentarianism " * 5,
    "<|startoftext|>", "<|endoftext|>", "a<|endoftext|>b", "a <|endoftext|> b", "<|startoftext|>a cat<|endoftext|>",
    "<|ENDOFTEXT|>", "<|EndOfText|>!", "!<|StartOfText|>", "<|endoftext|", "<|endoftext|><|endoftext|>", "<|<|endoftext|>|>", "</w>", "a</w>",
    "<|startoftext|>'s", "e<|endoftext|>\u0301",
]

WORDS = ("a an the of to left right above below large small red green blue circle square photo painting portrait cat dog "
         "house mountain sunset highly detailed 4k trending oil canvas by in style café naïve über Straße Łódź señor "
         "Москва весна Αθήνα θάλασσα 東京 寿司 서울 שלום مرحبا नमस्ते 😀 🎨 ❤️ it's don't we'll 1920s 35mm f/1.8 (best:1.2) , . ! ? : ; - — …").split()


def texts():
    rng = random.Random(20240513)
    result = list(BY_HAND)
    for _ in range(300):
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, 14))]
        words = [w.upper() if rng.random() < 0.1 else unicodedata.normalize("NFD", w) if rng.random() < 0.1 else w for w in words]
        result.append(rng.choice([" ", " ", " ", "", "  ", ", "]).join(words))
    # Unicode 3.2's characters: tokenizers 0.23 normalizes by an older database than ours and does not know the classes
    # of marks that came later (U+10F47 of Unicode 11, say), so the order of such marks differs.
    old = unicodedata.ucd_3_2_0
    assigned = [c for c in range(0x20, 0x20000) if old.category(chr(c)) not in ("Cn", "Cs", "Co")]
    marks = [c for c in assigned if unicodedata.combining(chr(c))]
    for _ in range(150):
        # Every third character a mark, so that ordering and composition have work.
        pool = [chr(rng.choice(marks if rng.random() < 0.3 else assigned)) for _ in range(rng.randint(1, 10))]
        result.append("".join(pool))
    latin = [c for c in assigned if c < 0x250]
    for _ in range(80):
        result.append("".join(chr(rng.choice(latin if rng.random() < 0.7 else range(0x300, 0x345))) for _ in range(rng.randint(1, 16))))
    return result


def main():
    if "--texts" in sys.argv:
        for text in texts():
            print(json.dumps({"text": text}))
        return
    special = HERE / "mixed" / "special_tokens_map.json"
    tokens = json.loads(special.read_text())
    tokens["pad_token"] = "!"
    special.write_text(json.dumps(tokens, indent=2) + "\n")
    from transformers import CLIPTokenizer

    tiny, mixed = CLIPTokenizer.from_pretrained(TINY_SD), CLIPTokenizer.from_pretrained(HERE / "mixed")

    def ids(tokenizer, text):
        row = tokenizer(text, padding="max_length", truncation=True).input_ids
        while len(row) > 1 and row[-1] == row[-2] == tokenizer.pad_token_id:
            row.pop()  # trailing padding is kept once, for size
        return row

    for text in texts():
        print(json.dumps({"text": text, "tiny_sd": ids(tiny, text), "mixed": ids(mixed, text)}, separators=(",", ":")))


if __name__ == "__main__":
    main()
