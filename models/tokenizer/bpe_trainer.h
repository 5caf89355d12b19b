// Learns a byte-pair vocabulary from text, in CLIP's file format.
//
// The most frequent pair of adjacent symbols becomes a new symbol, repeatedly (Sennrich et al.,
// "Neural machine translation of rare words with subword units", ACL 2016). Ties go to the pair
// that comes first in byte order, so the result depends on the texts only.
#ifndef DPIPE_MODELS_TOKENIZER_BPE_TRAINER_H_
#define DPIPE_MODELS_TOKENIZER_BPE_TRAINER_H_

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

struct BpeTrainerOptions {
  int max_merges = 200;  // fewer if every piece becomes one symbol earlier
  int min_count = 2;     // rarer pairs are not merged
};

struct TrainedBpe {
  // 256 byte symbols, the same with </w>, one per merge, <|startoftext|>, <|endoftext|>; index =
  // id.
  std::vector<std::string> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
};

// Learns a vocabulary in O(max_merges x letters in distinct pieces), which suits small
// vocabularies.
TrainedBpe TrainBpe(const std::vector<std::string>& texts, const BpeTrainerOptions& options);

// Writes vocab.json, merges.txt, tokenizer_config.json and special_tokens_map.json, a folder that
// transformers' CLIPTokenizer loads. The padding token is <|endoftext|>, as in CLIP.
absl::Status WriteTokenizerFolder(const std::string& folder, const TrainedBpe& bpe, int max_length);

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_BPE_TRAINER_H_
