"""Trains the CLIP-style text encoder of tiny_sd and writes it in the public checkpoints' layout.

Two losses on (image, caption) pairs:
- contrastive (CLIP) between the end-of-text state and a small CNN's image embedding (the CNN is discarded);
  identical captions of one batch are not counted as negatives of each other;
- word recall: from the state at the end-of-text token, a linear head per word position predicts the caption's
  words, and from every later (padding) state a shared head predicts which words occur. Cross-attention reads
  all 32 states, so this keeps "which colour belongs to which shape" readable from them.
"""

import argparse
import json
import math
import pathlib
import time

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from scenes import load_scenes, to_unit_range

MAX_TOKENS = 32


class ImageTower(nn.Module):
    """64x64 RGB -> embedding; keeps coarse positions, so that relations can be told apart."""

    def __init__(self, width):
        super().__init__()
        layers, channels = [], 3
        for out in (24, 48, 64, 96):
            layers += [nn.Conv2d(channels, out, 3, 2, 1), nn.GroupNorm(8, out), nn.SiLU()]
            channels = out
        self.features = nn.Sequential(*layers, nn.Conv2d(channels, 32, 1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(32 * 16, 192), nn.SiLU(), nn.Linear(192, width))

    def forward(self, x):
        return self.head(self.features(x))


class Recall(nn.Module):
    """Linear heads that predict a caption's tokens from the states at and after end-of-text."""

    def __init__(self, width, vocabulary, positions):
        super().__init__()
        self.ordered = nn.Linear(width, positions * width)
        self.embedding = nn.Linear(width, vocabulary)
        self.bag = nn.Linear(width, vocabulary)
        self.positions, self.width = positions, width

    def forward(self, states, pooled, tokens, end):
        wanted = tokens[:, 1 : self.positions + 1]
        inside = torch.arange(1, self.positions + 1)[None] < end[:, None]
        logits = self.embedding(self.ordered(pooled).view(-1, self.positions, self.width))
        ordered = F.cross_entropy(logits[inside], wanted[inside])
        words = torch.zeros(len(tokens), self.bag.out_features)
        words.scatter_(1, tokens, 1.0)
        after = torch.arange(tokens.shape[1])[None] >= end[:, None]
        bag = self.bag(states[after])
        targets = words[:, None].expand(-1, tokens.shape[1], -1)[after]
        right = (logits.argmax(-1) == wanted)[inside].float().mean()
        return ordered, F.binary_cross_entropy_with_logits(bag, targets) * 10, right


def contrastive_loss(image, text, captions_id, scale):
    """Symmetric InfoNCE; off-diagonal pairs with the same caption are left out of the denominator."""
    logits = scale * F.normalize(image, dim=-1) @ F.normalize(text, dim=-1).T
    same = captions_id[:, None] == captions_id[None]
    same.fill_diagonal_(False)
    logits = logits.masked_fill(same, -1e4)
    labels = torch.arange(len(image))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


def retrieval(image, text, captions_id):
    """Top-1 accuracy image->text and text->image; a twin with the identical caption counts as right."""
    logits = F.normalize(image, dim=-1) @ F.normalize(text, dim=-1).T
    to_text = (captions_id[logits.argmax(1)] == captions_id).float().mean().item()
    to_image = (captions_id[logits.argmax(0)] == captions_id).float().mean().item()
    return to_text, to_image


def save_with_public_names(model, folder):
    """save_pretrained, with parameter names as in public checkpoints (`text_model.` in front)."""
    model.save_pretrained(folder)
    file = pathlib.Path(folder) / "model.safetensors"
    weights = load_file(file)
    named = {k if k.startswith("text_model.") else "text_model." + k: v.contiguous() for k, v in weights.items()}
    save_file(named, file, metadata={"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out", required=True, help="the text_encoder/ folder to write")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--validation", type=int, default=256)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)

    images, captions = load_scenes(args.data)
    tokenizer = CLIPTokenizer.from_pretrained(args.tokenizer)
    encoded = tokenizer(captions, padding="max_length", max_length=MAX_TOKENS, truncation=True)
    tokens = torch.tensor(encoded.input_ids)
    end = (tokens == tokenizer.eos_token_id).int().argmax(-1)
    names = {c: i for i, c in enumerate(sorted(set(captions)))}
    captions_id = torch.tensor([names[c] for c in captions])
    print(f"{len(captions)} captions, {len(names)} distinct, longest {end.max().item() + 1} tokens")

    width = 64
    config = CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=256, num_hidden_layers=4,
        num_attention_heads=4, max_position_embeddings=MAX_TOKENS, hidden_act="quick_gelu", projection_dim=width,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    text_model, tower = CLIPTextModel(config), ImageTower(width)
    recall = Recall(width, len(tokenizer), int(end.max()) - 1)
    projection = nn.Linear(width, width, bias=False)
    log_scale = nn.Parameter(torch.tensor(math.log(10.0)))
    parameters = [*text_model.parameters(), *tower.parameters(), *recall.parameters(), *projection.parameters(),
                  log_scale]
    print("parameters", sum(p.numel() for p in text_model.parameters()))
    optimizer = torch.optim.AdamW(parameters, lr=args.lr, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1.0, (i + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * i / args.steps))))
    count = len(images) - args.validation
    start = time.time()
    for step in range(args.steps):
        index = torch.randint(count, (args.batch,))
        shift = torch.randint(-2, 3, (2,)).tolist()
        x = torch.roll(to_unit_range(images[index]), shift, (2, 3))
        states = text_model(tokens[index]).last_hidden_state
        pooled = states[torch.arange(len(index)), end[index]]
        contrast = contrastive_loss(tower(x), projection(pooled), captions_id[index], log_scale.exp().clamp(max=100))
        ordered, bag, right = recall(states, pooled, tokens[index], end[index])
        loss = contrast + 0.5 * ordered + 0.5 * bag
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == args.steps - 1:
            print(f"step {step} contrastive {contrast:.3f} ordered {ordered:.3f} bag {bag:.4f} "
                  f"recalled {right:.3f} {time.time() - start:.0f} s", flush=True)

    text_model.eval()
    with torch.no_grad():
        held = torch.arange(count, len(images))
        states = text_model(tokens[held]).last_hidden_state
        pooled = states[torch.arange(len(held)), end[held]]
        to_text, to_image = retrieval(tower(to_unit_range(images[held])), projection(pooled), captions_id[held])
        _, _, right = recall(states, pooled, tokens[held], end[held])
    save_with_public_names(text_model, args.out)
    print(json.dumps({"held_out": len(held), "image_to_text_top1": to_text, "text_to_image_top1": to_image,
                      "token_recall": right.item(), "state_std": states.std().item(),
                      "seconds": time.time() - start}))


if __name__ == "__main__":
    main()
