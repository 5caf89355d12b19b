#include "models/tokenizer/bpe_trainer.h"

#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "models/tokenizer/byte_symbols.h"
#include "models/tokenizer/pieces.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using Json = nlohmann::ordered_json;
using Pair = std::pair<std::string, std::string>;

constexpr char kStart[] = "<|startoftext|>";
constexpr char kEnd[] = "<|endoftext|>";

struct Word {
  std::vector<std::string> symbols;
  int64_t count = 0;
};

std::vector<Word> CountWords(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> counts;
  for (const std::string& text : texts) {
    for (const std::string& piece : SplitIntoPieces(text)) ++counts[piece];
  }
  std::vector<Word> words;
  for (const auto& [piece, count] : counts) {
    Word word;
    for (const char c : piece) word.symbols.push_back(ByteSymbols()[static_cast<uint8_t>(c)]);
    word.symbols.back() += kEndOfWord;
    word.count = count;
    words.push_back(word);
  }
  return words;
}

// Returns the most frequent pair and its count; ties go to the first pair in byte order.
std::pair<Pair, int64_t> MostFrequentPair(const std::vector<Word>& words) {
  std::map<Pair, int64_t> counts;
  for (const Word& word : words) {
    for (size_t i = 1; i < word.symbols.size(); ++i) {
      counts[{word.symbols[i - 1], word.symbols[i]}] += word.count;
    }
  }
  std::pair<Pair, int64_t> best;
  for (const auto& [pair, count] : counts) {
    if (count > best.second) best = {pair, count};
  }
  return best;
}

void Merge(const Pair& pair, Word& word) {
  std::vector<std::string> merged;
  for (const std::string& symbol : word.symbols) {
    if (!merged.empty() && merged.back() == pair.first && symbol == pair.second) {
      merged.back() += symbol;
    } else {
      merged.push_back(symbol);
    }
  }
  word.symbols = merged;
}

}  // namespace

TrainedBpe TrainBpe(const std::vector<std::string>& texts, const BpeTrainerOptions& options) {
  TrainedBpe bpe;
  for (const char* suffix : {"", kEndOfWord}) {
    for (const uint8_t byte : ByteSymbolOrder()) {
      bpe.vocabulary.push_back(absl::StrCat(ByteSymbols()[byte], suffix));
    }
  }
  std::vector<Word> words = CountWords(texts);
  while (static_cast<int>(bpe.merges.size()) < options.max_merges) {
    const auto [pair, count] = MostFrequentPair(words);
    if (count < options.min_count || count == 0) break;
    for (Word& word : words) Merge(pair, word);
    bpe.merges.push_back(pair);
    bpe.vocabulary.push_back(pair.first + pair.second);
  }
  bpe.vocabulary.push_back(kStart);
  bpe.vocabulary.push_back(kEnd);
  return bpe;
}

absl::Status WriteTokenizerFolder(const std::string& folder, const TrainedBpe& bpe,
                                  int max_length) {
  Json vocabulary = Json::object();
  for (size_t id = 0; id < bpe.vocabulary.size(); ++id) vocabulary[bpe.vocabulary[id]] = id;
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : bpe.merges) absl::StrAppend(&merges, left, " ", right, "\n");
  const Json special = {
      {"bos_token", kStart}, {"eos_token", kEnd}, {"pad_token", kEnd}, {"unk_token", kEnd}};
  Json config = {{"tokenizer_class", "CLIPTokenizer"},
                 {"model_max_length", max_length},
                 {"do_lower_case", true},
                 {"add_prefix_space", false}};
  config.update(special);
  const auto write = [&folder](const char* name, const std::string& content) {
    return WriteFileAtomically(absl::StrCat(folder, "/", name), content);
  };
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  DPIPE_RETURN_IF_ERROR(write("vocab.json", vocabulary.dump() + "\n"));
  DPIPE_RETURN_IF_ERROR(write("merges.txt", merges));
  DPIPE_RETURN_IF_ERROR(write("tokenizer_config.json", config.dump(2) + "\n"));
  return write("special_tokens_map.json", special.dump(2) + "\n");
}

}  // namespace dpipe
