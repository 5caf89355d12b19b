"""Trains tiny_flux's T5 encoder on the captions of the built-in set, and writes the weights of text_encoder_2/.

    python train_t5.py --data /tmp/scenes --model .. --steps 600

The objective is about text alone: a share of the words is replaced by <extra_id_0>, and from the state of every token,
linear heads predict the original words at distances -3 to 3. So states know which word was masked, and "which colour
belongs to which shape" can be read from single states. Padding is not masked, as in FluxPipeline.
"""

import argparse
import json
import math
import pathlib
import time

import torch
from torch import nn
from torch.nn import functional as F
from transformers import T5Config, T5EncoderModel, T5Tokenizer

REACH = 3


class Neighbours(nn.Module):
    """Linear heads that predict the tokens at distances -REACH to REACH from a token's state."""

    def __init__(self, width, vocabulary):
        super().__init__()
        self.offsets = nn.Linear(width, (2 * REACH + 1) * width)
        self.embedding = nn.Linear(width, vocabulary)

    def forward(self, states, tokens, pad):
        """Returns the loss, and the share of right predictions by distance."""
        count, length, width = states.shape
        logits = self.embedding(self.offsets(states).view(count, length, -1, width))
        wanted = F.pad(tokens, (REACH, REACH), value=pad).unfold(1, 2 * REACH + 1, 1)
        inside = (tokens != pad)[:, :, None] & (wanted != pad)
        right = (logits.argmax(-1) == wanted) & inside
        shares = right.sum((0, 1)) / inside.sum((0, 1))
        return F.cross_entropy(logits[inside], wanted[inside]), shares


def mask_words(tokens, share, special, mask):
    """Replaces `share` of the tokens that are not special."""
    chosen = (torch.rand(tokens.shape) < share) & ~torch.isin(tokens, special)
    return torch.where(chosen, torch.full_like(tokens, mask), tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True, help="folder with tokenizer_2/ and text_encoder_2/config.json")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--masked", type=float, default=0.15, help="share of words that are masked")
    parser.add_argument("--validation", type=int, default=256, help="captions held out, from the end")
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    model = pathlib.Path(args.model)
    rows = (pathlib.Path(args.data) / "metadata.jsonl").read_text().splitlines()
    captions = [json.loads(row)["text"] for row in rows if row]
    tokenizer = T5Tokenizer.from_pretrained(model / "tokenizer_2")
    tokens = tokenizer(captions, padding="max_length", max_length=tokenizer.model_max_length, truncation=True,
                       return_tensors="pt").input_ids
    pad, mask = tokenizer.pad_token_id, tokenizer.convert_tokens_to_ids("<extra_id_0>")
    special = torch.tensor([pad, tokenizer.eos_token_id])
    config = T5Config.from_pretrained(model / "text_encoder_2")
    encoder = T5EncoderModel(config)
    neighbours = Neighbours(config.d_model, config.vocab_size)
    parameters = [*encoder.parameters(), *neighbours.parameters()]
    print("parameters", sum(p.numel() for p in encoder.parameters()))
    optimizer = torch.optim.AdamW(parameters, lr=args.lr, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1.0, (i + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * i / args.steps))))
    train, held = tokens[: -args.validation], tokens[-args.validation :]
    used = time.process_time()
    for step in range(args.steps):
        batch = train[torch.randint(len(train), (args.batch,))]
        states = encoder(mask_words(batch, args.masked, special, mask)).last_hidden_state
        loss, shares = neighbours(states, batch, pad)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == args.steps - 1:
            print(f"step {step} loss {loss:.3f} cpu {time.process_time() - used:.0f} s", flush=True)

    encoder.eval()
    with torch.no_grad():
        states = encoder(held).last_hidden_state
        _, shares = neighbours(states, held, pad)
    encoder.save_pretrained(model / "text_encoder_2")
    print(json.dumps({"held_out": len(held), "recalled_at_-3_to_3": [round(s, 4) for s in shares.tolist()],
                      "state_std": states.std().item(), "cpu_s": time.process_time() - used}))


if __name__ == "__main__":
    main()
