"""Writes pools.json, from which many texts are drawn, and many_goldens.txt: what transformers makes of each.

    oracle/bin/python models/tokenizer/testdata/make_many_goldens.py

Line i of many_goldens.txt is the hash (FNV-1a, 32 bits, in hex) of text i's ids, each as four bytes, little endian:
those of data/models/stable_diffusion_v2_1/tokenizer (77 tokens, 604 in the vocabulary, padded with "!"), then those of
`mixed` (24 tokens, its own vocabulary). The ids are those of transformers' CLIPTokenizer with truncation and padding.
draw() is the one half of drawing a text, many_texts_test.cc has the other. Versions as in make_goldens.py.

    oracle/bin/python models/tokenizer/testdata/make_many_goldens.py --compare=BINARY --bpe=bpe_simple_vocab_16e6.txt.gz

writes no file. It makes CLIP's own vocabulary of 49,408 tokens from the file that open_clip_torch (PyPI) carries, and
compares BINARY (bazel-bin/models/tokenizer/tokenize) with transformers under it on the same texts, padded to 77.
"""

import argparse
import gzip
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unicodedata

from transformers import CLIPTokenizer

from make_goldens import BY_HAND, WORDS

HERE = pathlib.Path(__file__).resolve().parent
V21 = HERE.parents[2] / "data" / "models" / "stable_diffusion_v2_1" / "tokenizer"
COUNT = 12000

EMOJI = ("😀 😂 🥰 🤖 👍 👍🏽 🙏🏿 👩‍👩‍👧‍👦 👨‍💻 🏳️‍🌈 🇩🇪 🇫🇷 🇯🇵 ❤️ ❤ ☃ ☃️ ✨ 🎉 🎨 🐱 🦄 🧑‍🚀 1️⃣ #️⃣ *️⃣ ⭐ 🌅 🏔️ 🫠 🪷 🛸 ™️ ©️ ‼️ ⁉️ 🀄 🃏 🆎 🈚").split()
ACCENTS = ("café CAFÉ naïve façade Ångström über Straße ẞ señor mañana Łódź İstanbul ıssız œuvre Æsir þing ðe ǅ "
           "ế Việt ﬁre ﬂow ﬃ Ｆｕｌｌ ｗｉｄｔｈ ½ ¾ x² Ⅷ №").split()
SCRIPTS = ("Москва Ёлка весна Αθήνα ΣΟΦΟΣ σοφος θάλασσα 東京 寿司 日本語 テキスト ﾃｷｽﾄ ガ 中文字符 漢字 한국어 서울 ᄒ ᅡ ᆫ עברית שָׁלוֹם "
           "العربية مَرْحَبًا हिन्दी नमस्ते ไทย สวัสดี ქართული Հայերեն አማርኛ ᏣᎳᎩ தமிழ் ខ្មែរ မြန်မာ བོད 𝒜𝓁 𝟙𝟚 𐐀𐐨 𠀀 𪚥").split()
NUMBERS = "0 7 42 1920s 35mm 3.14159 1,000,000 2x4 4K 8bit 1e-5 -3 +7 50% $5.00 €10 №5 １２３ ٠١٢ ①② f/1.8 1:2 00 0x1F".split()
CONTRACTIONS = "it's IT'S don't DON'T they're we've I'm he'd you'll o'clock rock'n'roll 'tis 's 't 're 've 'm 'll 'd 'S 'RE x's'y ''s s' it’s".split()
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + "... !!! ?! -- — – … “a” ‘b’ «c» 、 。 「 」 ¿ ¡ · • → ≠ ∞ ♥ ( )) ,, <br> &amp; a/b".split()
WHITESPACE = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028",
              "\u2029", "\u202f", "\u205f", "\u3000", " \t \n "]
CONTROLS = [chr(c) for c in [*range(0, 32), 127, 128, 144, 159, 0xAD, 0x200B, 0x200C, 0x200D, 0x200E, 0x2060, 0xFEFF, 0xFFFD, 0xE000]]
SPECIAL = ["<|startoftext|>", "<|endoftext|>", "<|ENDOFTEXT|>", "<|endoftext|", "<|", "|>", "</w>", "!", "a!", "<|endoftext|>'s"]
LETTERS = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def ranges(points):
    result = []
    for point in points:
        if result and result[-1][1] == point - 1:
            result[-1][1] = point
        else:
            result.append([point, point])
    return result


def make_pools():
    # Unicode 3.2's characters, for the reason that make_goldens.py gives.
    old = unicodedata.ucd_3_2_0
    assigned = [c for c in range(0x20, 0x30000) if old.category(chr(c)) not in ("Cn", "Cs", "Co")]
    pools = {
        "words": WORDS, "accents": ACCENTS + [unicodedata.normalize("NFD", w) for w in ACCENTS], "scripts": SCRIPTS + [
            unicodedata.normalize("NFD", w) for w in SCRIPTS], "emoji": EMOJI, "numbers": NUMBERS, "contractions": CONTRACTIONS,
        "punctuation": PUNCTUATION, "whitespace": WHITESPACE, "controls": CONTROLS, "special": SPECIAL, "letters": LETTERS,
        "by_hand": BY_HAND, "space": [" "], "nothing": [""], "latin": ranges(c for c in assigned if c < 0x250),
        "marks": ranges(c for c in assigned if unicodedata.combining(chr(c))), "assigned": ranges(assigned),
        "bmp": ranges(c for c in assigned if c < 0x10000),
    }
    prose = ["words", "words", "words", "accents", "numbers", "contractions", "punctuation"]
    anything = ["words", "accents", "scripts", "emoji", "numbers", "contractions", "punctuation", "whitespace", "controls", "special"]
    recipes = [
        {"from": ["by_hand"], "least": 1, "most": 1, "between": ["nothing"]},
        {"from": prose, "least": 1, "most": 14, "between": ["space"]},
        {"from": prose, "least": 20, "most": 90, "between": ["space"]},
        {"from": ["words"], "least": 60, "most": 90, "between": ["space", "space", "whitespace"]},
        {"from": ["scripts", "accents", "emoji"], "least": 1, "most": 12, "between": ["space", "nothing"]},
        {"from": anything, "least": 1, "most": 20, "between": ["space", "nothing", "whitespace"]},
        {"from": anything, "least": 30, "most": 60, "between": ["space", "nothing", "whitespace"]},
        {"from": ["words", "controls", "whitespace"], "least": 1, "most": 10, "between": ["whitespace", "controls"]},
        {"from": ["emoji"], "least": 1, "most": 30, "between": ["nothing", "space"]},
        {"from": ["numbers", "punctuation", "letters"], "least": 1, "most": 30, "between": ["nothing", "nothing", "space"]},
        {"from": ["letters"], "least": 1, "most": 120, "between": ["nothing"]},
        {"from": ["contractions", "letters", "punctuation"], "least": 1, "most": 16, "between": ["nothing", "space"]},
        {"from": ["latin", "latin", "marks"], "least": 1, "most": 16, "between": ["nothing"]},
        {"from": ["assigned", "assigned", "marks"], "least": 1, "most": 12, "between": ["nothing"]},
        {"from": ["bmp"], "least": 1, "most": 40, "between": ["nothing", "space"]},
    ]
    return {"pools": pools, "recipes": recipes}


class Random:
    """SplitMix64 (Steele, Lea, Flood 2014), one stream a text."""

    def __init__(self, index):
        self.state = index * 0xD1342543DE82EF95 % 2**64

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return (z ^ (z >> 31)) % bound


def pick(pool, random):
    """An item of a list of strings; of a list of ranges of code points, each character as likely."""
    if isinstance(pool[0], str):
        return pool[random.below(len(pool))]
    place = random.below(sum(last - first + 1 for first, last in pool))
    for first, last in pool:
        if place <= last - first:
            return chr(first + place)
        place -= last - first + 1


def draw(definition, index):
    random = Random(index)
    recipe = definition["recipes"][random.below(len(definition["recipes"]))]
    count = recipe["least"] + random.below(recipe["most"] - recipe["least"] + 1)
    text = ""
    for i in range(count):
        if i > 0:
            text += pick(definition["pools"][recipe["between"][random.below(len(recipe["between"]))]], random)
        text += pick(definition["pools"][recipe["from"][random.below(len(recipe["from"]))]], random)
    return text


def padded_ids(tokenizer, texts):
    return tokenizer(texts, padding="max_length", truncation=True).input_ids


def fnv(numbers):
    key = 2166136261
    for byte in b"".join(struct.pack("<i", n) for n in numbers):
        key = (key ^ byte) * 16777619 % 2**32
    return key


def clip_folder(bpe, folder):
    """CLIP's files, made as OpenAI's simple_tokenizer.py orders its vocabulary."""
    tiny = json.loads((V21 / "vocab.json").read_text())
    symbols = sorted(tiny, key=tiny.get)[:512]  # the bytes, then the same with </w>: as in every such vocabulary
    merges = gzip.open(bpe).read().decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    tokens = symbols + ["".join(m.split()) for m in merges] + ["<|startoftext|>", "<|endoftext|>"]
    assert len(tokens) == len(set(tokens)) == 49408
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "CLIPTokenizer", "model_max_length": 77}))


def compare(binary, bpe, texts):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        clip_folder(bpe, folder)
        theirs = padded_ids(CLIPTokenizer.from_pretrained(folder), texts)
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        ours = subprocess.run([binary, f"--tokenizer={folder}"], input=lines, text=True, capture_output=True, check=True)
    ours = [json.loads(line) for line in ours.stdout.splitlines()]
    assert len(ours) == len(texts)
    different = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    long = sum(row[-1] == 49407 and row[-2] != 49407 for row in theirs)
    print(f"{len(texts)} texts, {len(set(texts))} different ones, {long} of 77 tokens or more; "
          f"vocabulary of 49,408: {len(different)} differ")
    for i in different[:10]:
        print(json.dumps(texts[i]), ours[i], theirs[i])
    return 1 if different else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", help="the tokenize binary")
    parser.add_argument("--bpe", help="open_clip's bpe_simple_vocab_16e6.txt.gz")
    args = parser.parse_args()
    definition = make_pools()
    texts = [draw(definition, i) for i in range(COUNT)]
    if args.compare:
        sys.exit(compare(args.compare, args.bpe, texts))
    (HERE / "pools.json").write_text(json.dumps(definition, separators=(",", ":")) + "\n")
    rows = [padded_ids(CLIPTokenizer.from_pretrained(folder), texts) for folder in (V21, HERE / "mixed")]
    (HERE / "many_goldens.txt").write_text("".join(f"{fnv(a + b):08x}\n" for a, b in zip(*rows)))
    long = sum(row[-1] == 603 and row[-2] != 0 for row in rows[0])
    print(f"{len(texts)} texts, {len(set(texts))} different ones, {long} cut or just full at 77 tokens")


if __name__ == "__main__":
    main()
