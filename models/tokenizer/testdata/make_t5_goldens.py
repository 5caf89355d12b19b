"""Trains t5/spiece.model and writes t5/goldens.jsonl: the ids that SentencePiece and transformers give for texts.

    oracle/bin/python models/tokenizer/testdata/make_t5_goldens.py

The model has T5's settings (unigram, nmt_nfkc, no fall back to bytes, <pad> 0, </s> 1, <unk> 2) and two user-defined
pieces; T5's own model is not shipped. It is trained on texts of make_many_goldens.py, and the goldens are others of
these. Each line has the text, the ids of the text (sentencepiece, with special tokens cut out first), and whether
transformers' T5Tokenizer agrees. Versions: sentencepiece 0.2.3, transformers 5.24.0.
"""

import json
import pathlib
import re
import tempfile

import sentencepiece
from transformers import T5Tokenizer

from make_many_goldens import draw

HERE = pathlib.Path(__file__).resolve().parent
TRAINING, GOLDENS = range(100000, 104000), range(50000, 50400)
BY_HAND = ["", " ", "a", "  a  b ", "A photo of a cat, 3 dogs", "a<extra_id_3>b", "a <extra_id_0> b", "x</s> y", "<pad>", "<unk>",
           "<extra_id_99>", "<extra_id_100>", "<extra_id_", "< </s", "[user]a[user]", "a\u2581b", "Ｆｕｌｌ ½ café cafe\u0301", "𪚥𪚥 𪚥 x",
           "\u0000", "a\u0085b\u2028c", "\ufffd", "ﬁre ﬂow", "[us[user]er]", "[user][user]s"]
SPECIAL = re.compile(r"(<pad>|</s>|<unk>|<extra_id_\d{1,2}>)")


def encode(processor, text):
    special = {"<pad>": 0, "</s>": 1, "<unk>": 2} | {
        f"<extra_id_{i}>": processor.get_piece_size() + 99 - i for i in range(100)}
    ids = []
    for part in SPECIAL.split(text):
        ids += [special[part]] if part in special else processor.encode(part)
    return ids


def main():
    folder = HERE / "t5"
    pools = json.loads((HERE / "pools.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        texts = [re.sub(r"[\0\r\n]", " ", draw(pools, i)) for i in TRAINING]
        corpus = pathlib.Path(scratch) / "corpus.txt"
        corpus.write_text("\n".join(text for text in texts if text.strip()) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=f"{scratch}/spiece", vocab_size=1500, model_type="unigram",
            normalization_rule_name="nmt_nfkc", byte_fallback=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
            character_coverage=0.98, user_defined_symbols=["[user]", "[user]s"], num_threads=1)
        (folder / "spiece.model").write_bytes(pathlib.Path(f"{scratch}/spiece.model").read_bytes())
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    transformers_tokenizer = T5Tokenizer.from_pretrained(folder)
    lines = []
    for text in BY_HAND + [draw(pools, i) for i in GOLDENS]:
        ids = encode(processor, text)
        agrees = transformers_tokenizer(text).input_ids == ids + [1]
        lines.append(json.dumps({"text": text, "ids": ids, "transformers_agrees": agrees}))
    (folder / "goldens.jsonl").write_text("\n".join(lines) + "\n")
    print(processor.get_piece_size(), len(lines), sum('"transformers_agrees": true' in line for line in lines))


if __name__ == "__main__":
    main()
