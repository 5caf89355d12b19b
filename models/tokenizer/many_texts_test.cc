// Compares 12,000 texts with transformers' CLIPTokenizer: words, accents, scripts, emoji, marks,
// controls, white space and more, from short ones to more than 77 tokens. This file repeats draw()
// of testdata/make_many_goldens.py.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "gtest/gtest.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using Json = nlohmann::json;

// SplitMix64, with one stream per text.
class Random {
 public:
  explicit Random(uint64_t index) : state_(index * 0xD1342543DE82EF95u) {}
  uint64_t Below(uint64_t bound) {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % bound;
  }

 private:
  uint64_t state_;
};

std::string Utf8(uint32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  std::string text;
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  const uint32_t lead = more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0;
  text += static_cast<char>(lead | (c >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3f));
  return text;
}

// Picks an item from a list of strings, or a character uniformly from a list of code point ranges.
std::string Pick(const Json& pool, Random* random) {
  if (pool[0].is_string()) return pool[random->Below(pool.size())].get<std::string>();
  uint64_t total = 0;
  for (const Json& range : pool) total += range[1].get<uint32_t>() - range[0].get<uint32_t>() + 1;
  uint64_t place = random->Below(total);
  for (const Json& range : pool) {
    const uint32_t first = range[0], size = range[1].get<uint32_t>() - first + 1;
    if (place < size) return Utf8(first + static_cast<uint32_t>(place));
    place -= size;
  }
  return "";
}

std::string Draw(const Json& definition, uint64_t index) {
  Random random(index);
  const Json& recipes = definition["recipes"];
  const Json& recipe = recipes[random.Below(recipes.size())];
  const auto any = [&](const char* key) {
    const Json& names = recipe[key];
    const std::string name = names[random.Below(names.size())];
    return Pick(definition["pools"][name], &random);
  };
  const uint64_t least = recipe["least"], most = recipe["most"];
  const uint64_t count = least + random.Below(most - least + 1);
  std::string text;
  for (uint64_t i = 0; i < count; ++i) {
    if (i > 0) text += any("between");
    text += any("from");
  }
  return text;
}

void Hash(const std::vector<int32_t>& ids, uint32_t* key) {
  for (int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      *key = (*key ^ ((static_cast<uint32_t>(id) >> shift) & 0xff)) * 16777619u;
    }
  }
}

TEST(ManyTextsTest, AgreesWithTransformers) {
  const auto pools = ReadFile("models/tokenizer/testdata/pools.json");
  const auto goldens = ReadFile("models/tokenizer/testdata/many_goldens.txt");
  ASSERT_TRUE(pools.ok() && goldens.ok()) << pools.status() << goldens.status();
  const auto v21 = ClipTokenizer::Load("data/models/stable_diffusion_v2_1/tokenizer");
  const auto mixed = ClipTokenizer::Load("models/tokenizer/testdata/mixed");
  ASSERT_TRUE(v21.ok() && mixed.ok()) << v21.status() << mixed.status();
  ASSERT_EQ(v21->max_length(), 77);
  const Json definition = Json::parse(*pools);
  const std::vector<std::string> lines = absl::StrSplit(*goldens, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 12000u);
  std::set<std::string> texts;
  int failures = 0, long_texts = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string text = Draw(definition, i);
    texts.insert(text);
    long_texts += v21->EncodeText(text).size() > 75;
    uint32_t key = 2166136261u;
    Hash(v21->Encode(text), &key);
    Hash(mixed->Encode(text), &key);
    if (key == std::strtoul(lines[i].c_str(), nullptr, 16) || ++failures > 10) continue;
    ADD_FAILURE() << "text " << i << ": " << Json(text).dump();
  }
  EXPECT_EQ(failures, 0);
  EXPECT_GT(texts.size(), 10000u) << "different ones";
  EXPECT_GT(long_texts, 1000) << "do not fit in 77 tokens";
}

}  // namespace
}  // namespace dpipe
