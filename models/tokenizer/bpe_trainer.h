// Learns a byte-pair vocabulary from text, in CLIP's file format.
//
// The most frequent pair of adjacent symbols becomes a symbol of its own, again and again (Sennrich
// et al., "Neural machine translation of rare words with subword units", ACL 2016). Ties go to the
// pair that comes first in byte order, so the result depends on the texts only.
#ifndef DPIPE_MODELS_TOKENIZER_BPE_TRAINER_H_
#define DPIPE_MODELS_TOKENIZER_BPE_TRAINER_H_

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

struct BpeTrainerOptions {
  int max_merges = 200;  // fewer if every piece is one symbol before that
  int min_count = 2;     // rarer pairs stay apart
};

struct TrainedBpe {
  // 256 byte symbols, the same with </w>, one per merge, <|startoftext|>, <|endoftext|>; index =
  // id.
  std::vector<std::string> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
};

// Takes O(max_merges x letters in distinct pieces): for small vocabularies.
TrainedBpe TrainBpe(const std::vector<std::string>& texts, const BpeTrainerOptions& options);

// Writes vocab.json, merges.txt, tokenizer_config.json and special_tokens_map.json; transformers'
// CLIPTokenizer loads the folder. Padding is by <|endoftext|>, as in CLIP.
absl::Status WriteTokenizerFolder(const std::string& folder, const TrainedBpe& bpe, int max_length);

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_BPE_TRAINER_H_
