"""Writes tiny_flux's folder without T5's and the transformer's weights: VAE, CLIP, both tokenizers, configurations.

    python make_parts.py --data /tmp/scenes --out ..

The VAE is tiny_sd's in FLUX.1's form: no quantisation convolutions, and latents with a shift. The encoder's last
convolution absorbs `quant_conv`, which follows it, exactly. The decoder's first convolution absorbs `post_quant_conv`,
exactly but for the border: its padding was zeros behind that convolution, and now is in front of it. Weights are then
rounded to half precision. CLIP and its tokenizer are copies of tiny_sd's. T5's tokenizer is a unigram model: every
word of the captions with its frequency, and single characters, much less likely, for all other text. (SentencePiece's
trainer finds no whole words in so few different ones; it supplies the normalization.)
"""

import argparse
import collections
import math
import pathlib
import shutil
import sys
import tempfile

import sentencepiece
import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from sentencepiece import sentencepiece_model_pb2
from transformers import CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
TINY_SD = HERE.parents[1] / "tiny_sd"
sys.path.insert(0, str(TINY_SD / "make"))
from scenes import load_scenes, to_unit_range  # noqa: E402
from train_vae import latent_statistics, reconstruction_error  # noqa: E402

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()-"
CHARACTER_SCORE = -12.0  # of a word's characters together: always below the word's own score
MAX_TOKENS = 20  # the longest caption of the built-in set has 17 with its end
WIDTH = 64       # of both text encoders' states


def convert_vae(old):
    """The same autoencoder without quantisation convolutions."""
    config = dict(old.config) | {"use_quant_conv": False, "use_post_quant_conv": False, "shift_factor": 0.0}
    new = AutoencoderKL.from_config(config).eval()
    state = {name: value.double() for name, value in old.state_dict().items()}
    quant, quant_bias = state.pop("quant_conv.weight")[:, :, 0, 0], state.pop("quant_conv.bias")
    post, post_bias = state.pop("post_quant_conv.weight")[:, :, 0, 0], state.pop("post_quant_conv.bias")
    state["encoder.conv_out.weight"] = torch.einsum("oi,ichw->ochw", quant, state["encoder.conv_out.weight"])
    state["encoder.conv_out.bias"] = quant @ state["encoder.conv_out.bias"] + quant_bias
    first = state["decoder.conv_in.weight"]
    state["decoder.conv_in.weight"] = torch.einsum("oihw,ic->ochw", first, post)
    state["decoder.conv_in.bias"] += torch.einsum("oihw,i->o", first, post_bias)
    new.load_state_dict({name: value.float() for name, value in state.items()})
    return new


def report_difference(old, new, images):
    with torch.no_grad():
        a, b = (vae.decode(vae.encode(images).latent_dist.mean).sample for vae in (old, new))
    print("reconstructions differ by", ((a - b).norm() / a.norm()).item())


def make_tokenizer(captions, path):
    with tempfile.TemporaryDirectory() as scratch:
        corpus = pathlib.Path(scratch) / "corpus.txt"
        corpus.write_text("\n".join(captions) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=f"{scratch}/spiece", vocab_size=64, hard_vocab_limit=False,
            model_type="unigram", normalization_rule_name="nmt_nfkc_cf", byte_fallback=False, pad_id=0, eos_id=1,
            unk_id=2, bos_id=-1, num_threads=1, minloglevel=2)
        model = sentencepiece_model_pb2.ModelProto.FromString(pathlib.Path(f"{scratch}/spiece.model").read_bytes())
    del model.pieces[3:]  # all but <pad>, </s> and <unk>
    words = collections.Counter(word for caption in captions for word in caption.split())
    total = sum(words.values())
    scores = {"\u2581" + word: math.log(count / total) for word, count in sorted(words.items())}
    scores |= {character: CHARACTER_SCORE for character in "\u2581" + CHARACTERS if character not in scores}
    for piece, score in scores.items():
        model.pieces.add(piece=piece, score=score)
    model.trainer_spec.vocab_size = len(model.pieces)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    longest = max(captions, key=lambda caption: len(processor.encode(caption)))
    print(processor.get_piece_size(), "pieces; the longest caption:", processor.encode(longest, out_type=str))
    assert len(processor.encode(longest)) < MAX_TOKENS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--validation", type=int, default=256, help="images held out, from the end")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    out = pathlib.Path(args.out)
    images, captions = load_scenes(args.data)
    train, held_out = (to_unit_range(part) for part in (images[:1024], images[-args.validation :]))

    old = AutoencoderKL.from_pretrained(TINY_SD / "vae").eval()
    vae = convert_vae(old)
    report_difference(old, vae, held_out[:32])
    with torch.no_grad():
        means = torch.cat([vae.encode(chunk).latent_dist.mean for chunk in train.split(32)])
    std, _ = latent_statistics(vae, train)
    vae.register_to_config(shift_factor=round(means.mean().item(), 4), scaling_factor=round(1 / std, 5),
                           _name_or_path="")
    vae = vae.half().float()
    print("held-out error and PSNR after rounding", *reconstruction_error(vae, held_out))

    make_tokenizer(captions, out / "tokenizer_2" / "spiece.model")
    (out / "tokenizer_2" / "tokenizer_config.json").write_text(
        '{\n  "tokenizer_class": "T5Tokenizer",\n  "extra_ids": 100,\n'
        f'  "model_max_length": {MAX_TOKENS},\n'
        '  "eos_token": "</s>",\n  "pad_token": "<pad>",\n  "unk_token": "<unk>"\n}\n')
    tokenizer_2 = T5Tokenizer.from_pretrained(out / "tokenizer_2")
    transformer = FluxTransformer2DModel(
        in_channels=16, num_layers=2, num_single_layers=4, attention_head_dim=32, num_attention_heads=4,
        joint_attention_dim=WIDTH, pooled_projection_dim=WIDTH, guidance_embeds=False, axes_dims_rope=(8, 12, 12))
    print("transformer's parameters", sum(p.numel() for p in transformer.parameters()))
    t5 = T5EncoderModel(T5Config(
        vocab_size=len(tokenizer_2), d_model=WIDTH, d_kv=16, d_ff=128, num_layers=3, num_heads=4, dropout_rate=0.0,
        feed_forward_proj="gated-gelu", relative_attention_num_buckets=16, relative_attention_max_distance=32))
    pipeline = FluxPipeline(
        FlowMatchEulerDiscreteScheduler(shift=2.0), vae, CLIPTextModel.from_pretrained(TINY_SD / "text_encoder"),
        CLIPTokenizer.from_pretrained(TINY_SD / "tokenizer"), t5, tokenizer_2, transformer)
    with tempfile.TemporaryDirectory() as scratch:
        pipeline.save_pretrained(scratch)
        scratch = pathlib.Path(scratch)
        for part in ("scheduler", "vae", "text_encoder_2", "transformer"):
            (out / part).mkdir(parents=True, exist_ok=True)
            for config in (scratch / part).glob("*.json"):
                shutil.copy(config, out / part)
        shutil.copy(scratch / "model_index.json", out)
    vae.half().save_pretrained(out / "vae")
    for part in ("text_encoder", "tokenizer"):
        shutil.copytree(TINY_SD / part, out / part, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
