#include "models/tokenizer/clip_tokenizer.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "core/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/tokenizer/byte_symbols.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kTinySd[] = "data/tiny_sd/tokenizer";
constexpr char kMixed[] = "models/tokenizer/testdata/mixed";

// A vocabulary of the byte symbols, "ab</w>" (512), "ab" (513), "abc</w>" (514) and the two marks.
nlohmann::ordered_json SmallVocabulary() {
  nlohmann::ordered_json vocabulary;
  for (const char* suffix : {"", kEndOfWord}) {
    for (const uint8_t byte : ByteSymbolOrder()) {
      vocabulary[absl::StrCat(ByteSymbols()[byte], suffix)] = vocabulary.size();
    }
  }
  for (const char* token : {"ab</w>", "ab", "abc</w>", "<|startoftext|>", "<|endoftext|>"}) {
    vocabulary[token] = vocabulary.size();
  }
  return vocabulary;
}

constexpr char kSmallMerges[] = "#version: 0.2\na b</w>\na b\nab c</w>\n";

ClipTokenizer Small() {
  return ClipTokenizer::Create(SmallVocabulary().dump(), kSmallMerges, {}).value();
}

std::string ErrorOf(const std::string& vocabulary, const std::string& merges) {
  const auto tokenizer = ClipTokenizer::Create(vocabulary, merges, {});
  return tokenizer.ok() ? "no error" : std::string(tokenizer.status().message());
}

void CheckGoldens(const std::string& folder, const char* column) {
  const auto tokenizer = ClipTokenizer::Load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto goldens = ReadFile("models/tokenizer/testdata/goldens.jsonl");
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  int num_texts = 0;
  for (const auto line : absl::StrSplit(*goldens, '\n', absl::SkipEmpty())) {
    const auto golden = nlohmann::json::parse(line.begin(), line.end());
    std::vector<int32_t> expected = golden[column];
    // The golden has only one of the trailing padding tokens.
    if (expected.back() == tokenizer->pad_id()) {
      expected.resize(tokenizer->max_length(), tokenizer->pad_id());
    }
    EXPECT_EQ(tokenizer->Encode(golden["text"].get<std::string>()), expected) << line;
    ++num_texts;
  }
  EXPECT_GE(num_texts, 500);
}

TEST(ClipTokenizerTest, AgreesWithTransformersOnTinySd) { CheckGoldens(kTinySd, "tiny_sd"); }

TEST(ClipTokenizerTest, AgreesWithTransformersOnMixedScripts) { CheckGoldens(kMixed, "mixed"); }

TEST(ClipTokenizerTest, EachWordOfTinySdsCaptionsIsOneToken) {
  const auto tokenizer = ClipTokenizer::Load(kTinySd);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string caption =
      "a large red circle to the left of an orange star above below right small green blue yellow "
      "purple cyan white square triangle cross on black gray brown background";
  EXPECT_EQ(tokenizer->EncodeText(caption).size(), 29u);
  EXPECT_EQ(tokenizer->max_length(), 32);
  EXPECT_EQ(tokenizer->pad_id(), tokenizer->eos_id());
}

TEST(ClipTokenizerTest, MergesByRank) {
  const ClipTokenizer tokenizer = Small();
  // "ab" is a, b</w>; "abc" is a, b, c</w>; "aab" is a, ab</w>.
  EXPECT_THAT(tokenizer.EncodeText("ab abc aab"), ElementsAre(512, 514, 64, 512));
}

TEST(ClipTokenizerTest, PadsAndTruncatesWithTheEndKept) {
  ClipTokenizerConfig config;
  config.max_length = 4;
  const auto tokenizer = ClipTokenizer::Create(SmallVocabulary().dump(), kSmallMerges, config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(tokenizer->Encode(""), ElementsAre(515, 516, 516, 516));
  EXPECT_THAT(tokenizer->Encode("ab"), ElementsAre(515, 512, 516, 516));
  EXPECT_THAT(tokenizer->Encode("ab ab"), ElementsAre(515, 512, 512, 516));
  EXPECT_THAT(tokenizer->Encode("ab ab abc"), ElementsAre(515, 512, 512, 516));
}

// Joins one pair at a time over the whole piece, the best rank first, then the leftmost.
std::vector<std::string> EncodeByScanning(
    std::vector<std::string> symbols,
    const std::vector<std::pair<std::string, std::string>>& merges) {
  for (;;) {
    size_t best_rank = merges.size(), best_at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank] == std::make_pair(symbols[i], symbols[i + 1]))
          best_rank = rank, best_at = i;
      }
    }
    if (best_rank == merges.size()) return symbols;
    symbols[best_at] += symbols[best_at + 1];
    symbols.erase(symbols.begin() + best_at + 1);
  }
}

TEST(ClipTokenizerTest, QueueMatchesScanning) {
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"a", "a"},   {"aa", "a"}, {"b", "a"},      {"aa", "aa"},     {"a", "b</w>"},
      {"ba", "ba"}, {"aa", "b"}, {"baba", "aab"}, {"ba", "ab</w>"}, {"b", "b"}};
  nlohmann::ordered_json vocabulary = SmallVocabulary();
  std::string text = "#version: 0.2\n";
  for (const auto& [left, right] : merges) {
    if (!vocabulary.contains(left + right)) vocabulary[left + right] = vocabulary.size();
    absl::StrAppend(&text, left, " ", right, "\n");
  }
  const auto tokenizer = ClipTokenizer::Create(vocabulary.dump(), text, {});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (int trial = 0; trial < 2000; ++trial) {
    RandomStream random(17, trial, 0, RandomPurpose::kTest);
    std::string piece;
    for (int i = random.NextBelow(20); i >= 0; --i) piece += random.NextBelow(3) == 0 ? 'b' : 'a';
    std::vector<std::string> symbols;
    for (const char c : piece) symbols.push_back(std::string(1, c));
    symbols.back() += kEndOfWord;
    std::vector<int32_t> expected;
    for (const std::string& symbol : EncodeByScanning(symbols, merges)) {
      expected.push_back(vocabulary[symbol]);
    }
    EXPECT_EQ(tokenizer->EncodeText(piece), expected) << piece;
  }
}

TEST(ClipTokenizerTest, EncodesAPieceOfOneMegabyte) {
  EXPECT_EQ(Small().EncodeText(std::string(1 << 20, 'a')).size(), size_t{1} << 20);
}

TEST(ClipTokenizerTest, DecodeGivesTextBack) {
  const ClipTokenizer tokenizer = Small();
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode("ABC  ab caf\u00e9 \U0001f600!")),
            "abc ab caf\u00e9 \U0001f600!");
  EXPECT_EQ(tokenizer.Decode({-1, 512, 100000}), "ab");
}

TEST(ClipTokenizerTest, BadVocabularyIsNamed) {
  EXPECT_THAT(ErrorOf("", kSmallMerges), HasSubstr("vocab.json: empty, not JSON"));
  EXPECT_THAT(ErrorOf("[1]", kSmallMerges), HasSubstr("vocab.json: expected a JSON object"));
  EXPECT_THAT(ErrorOf(std::string(200'000, '['), kSmallMerges), HasSubstr("vocab.json: line 1"));
  EXPECT_THAT(ErrorOf("{\"a\": \"b\"}", kSmallMerges), HasSubstr("id \"b\" of \"a\""));
  EXPECT_THAT(ErrorOf("{\"a\": -1}", kSmallMerges), HasSubstr("id -1 of \"a\""));
  EXPECT_THAT(ErrorOf("{\"a\": 9000000000}", kSmallMerges), HasSubstr("id 9000000000"));
  EXPECT_THAT(ErrorOf("{\"a\": 18446744073709551615}", kSmallMerges), HasSubstr("id 1844674"));
  EXPECT_THAT(ErrorOf("{\"a\": 1e99}", kSmallMerges), HasSubstr("of \"a\" is not an integer"));
  EXPECT_THAT(ErrorOf("{\"a\": 1, \"b\": 1}", kSmallMerges),
              HasSubstr("id 1 belongs to \"a\" and to \"b\""));
  auto vocabulary = SmallVocabulary();
  vocabulary.erase("q</w>");
  EXPECT_THAT(ErrorOf(vocabulary.dump(), kSmallMerges),
              HasSubstr("no token \"q</w>\" for byte 113"));
  vocabulary = SmallVocabulary();
  vocabulary.erase("<|endoftext|>");
  EXPECT_THAT(ErrorOf(vocabulary.dump(), kSmallMerges), HasSubstr("<|endoftext|>"));
}

TEST(ClipTokenizerTest, BadMergesAreNamedWithTheirLine) {
  const std::string vocabulary = SmallVocabulary().dump();
  EXPECT_THAT(ErrorOf(vocabulary, "#version: 0.2\na b\nab"), HasSubstr("merges.txt line 3"));
  EXPECT_THAT(ErrorOf(vocabulary, "a b c"), HasSubstr("merges.txt line 1"));
  EXPECT_THAT(ErrorOf(vocabulary, "a b\na b"), HasSubstr("line 2: \"a b\" is listed twice"));
  EXPECT_THAT(ErrorOf(vocabulary, "zz b"), HasSubstr("\"zz\" is not in vocab.json"));
  EXPECT_THAT(ErrorOf(vocabulary, "a z"), HasSubstr("\"az\" is not in vocab.json"));
}

// For any content of a file, Create returns an error or a tokenizer that works.
TEST(ClipTokenizerTest, SurvivesFlippedBytes) {
  const std::string vocabulary = SmallVocabulary().dump(), merges = kSmallMerges;
  int num_errors = 0;
  for (int trial = 0; trial < 400; ++trial) {
    RandomStream random(23, trial, 0, RandomPurpose::kTest);
    std::string v = vocabulary, m = merges;
    std::string& target = trial % 2 == 0 ? v : m;
    target[random.NextBelow(target.size())] ^= 1 << random.NextBelow(8);
    const auto tokenizer = ClipTokenizer::Create(v, m, {});
    num_errors += !tokenizer.ok();
    if (!tokenizer.ok()) continue;
    EXPECT_EQ(tokenizer->Encode("abc ab!").size(), 77u);
  }
  EXPECT_GT(num_errors, 100);
}

class ClipTokenizerFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("vocab.json", SmallVocabulary().dump());
    Write("merges.txt", kSmallMerges);
  }
  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(absl::StrCat(folder_, "/", name), content).ok());
  }
  const ScratchFolder scratch_;
  const std::string& folder_ = scratch_.path();
};

TEST_F(ClipTokenizerFolderTest, ConfigsMayBeMissing) {
  const auto tokenizer = ClipTokenizer::Load(folder_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->max_length(), 77);
}

TEST_F(ClipTokenizerFolderTest, SpecialTokensMapOverridesUnlessTheConfigIsComplete) {
  Write("tokenizer_config.json",
        R"({"model_max_length": 1e30, "pad_token": {"content": "<|endoftext|>"}})");
  Write("special_tokens_map.json", R"({"pad_token": "!"})");
  EXPECT_EQ(ClipTokenizer::Load(folder_)->pad_id(), 0);
  EXPECT_EQ(ClipTokenizer::Load(folder_)->max_length(), 77);
  Write("tokenizer_config.json",
        R"({"model_max_length": 9, "pad_token": "<|endoftext|>", "added_tokens_decoder": {}})");
  EXPECT_EQ(ClipTokenizer::Load(folder_)->pad_id(), 516);
  EXPECT_EQ(ClipTokenizer::Load(folder_)->max_length(), 9);
}

// As written by transformers 5: tokenizer.json has the vocabulary, the merges and the added tokens.
nlohmann::ordered_json TokenizerJson(const std::string& vocab_json, const std::string& merges_txt,
                                     bool merges_are_pairs) {
  nlohmann::ordered_json merges = nlohmann::ordered_json::array();
  for (const absl::string_view line : absl::StrSplit(merges_txt, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "#version")) continue;
    const std::vector<std::string> pair = absl::StrSplit(line, ' ');
    if (merges_are_pairs) {
      merges.push_back(pair);
    } else {
      merges.push_back(std::string(line));
    }
  }
  nlohmann::ordered_json json;
  json["added_tokens"] = nlohmann::ordered_json::array();
  json["model"] = {
      {"type", "BPE"}, {"vocab", nlohmann::ordered_json::parse(vocab_json)}, {"merges", merges}};
  return json;
}

TEST_F(ClipTokenizerFolderTest, TokenizerJsonAloneIsEnough) {
  for (const char* file : {"vocab.json", "merges.txt"}) {
    ASSERT_TRUE(std::filesystem::remove(absl::StrCat(folder_, "/", file)));
  }
  EXPECT_EQ(ClipTokenizer::Load(folder_).status().code(), absl::StatusCode::kNotFound);
  for (const bool pairs : {false, true}) {
    Write("tokenizer.json", TokenizerJson(SmallVocabulary().dump(), kSmallMerges, pairs).dump());
    const auto tokenizer = ClipTokenizer::Load(folder_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_THAT(tokenizer->EncodeText("ab abc aab"), ElementsAre(512, 514, 64, 512));
  }
}

TEST_F(ClipTokenizerFolderTest, BadTokenizerJsonIsNamed) {
  ASSERT_TRUE(std::filesystem::remove(absl::StrCat(folder_, "/vocab.json")));
  const auto error = [&](const nlohmann::ordered_json& json) {
    Write("tokenizer.json", json.dump());
    return std::string(ClipTokenizer::Load(folder_).status().message());
  };
  EXPECT_THAT(error({{"model", nlohmann::ordered_json::array()}}),
              HasSubstr("/tokenizer.json: no \"model\" with the \"vocab\""));
  auto json = TokenizerJson(SmallVocabulary().dump(), kSmallMerges, true);
  json["model"]["merges"][1] = {"a", "b", "c"};
  EXPECT_THAT(error(json), HasSubstr("the merge [\"a\",\"b\",\"c\"] is not two symbols"));
  json["model"]["merges"][1] = "a z";
  EXPECT_THAT(error(json),
              HasSubstr("/tokenizer.json, as vocab.json and merges.txt: merges.txt line 2"));
}

// Added tokens of every kind, and the ids of texts with them in transformers 5.23.0 with tokenizers
// 0.23.3, after
//   tokenizer = CLIPTokenizer.from_pretrained("data/tiny_sd/tokenizer")
//   tokenizer.add_tokens(["<cat-toy>", "<Cat>", "<cat-toy>s", "ab cd"])
//   tokenizer.add_tokens([AddedToken("<Dog>", normalized=False),
//                         AddedToken("<x>", lstrip=True, rstrip=True)])
constexpr char kAddedTokens[] = R"([
    {"id": 602, "content": "<|startoftext|>", "normalized": false, "special": true},
    {"id": 603, "content": "<|endoftext|>", "normalized": false, "special": true},
    {"id": 604, "content": "<cat-toy>", "normalized": true, "special": false},
    {"id": 605, "content": "<Cat>", "normalized": true, "special": false},
    {"id": 606, "content": "<cat-toy>s", "normalized": true, "special": false},
    {"id": 607, "content": "ab cd", "normalized": true, "special": false},
    {"id": 608, "content": "<Dog>", "normalized": false, "special": false},
    {"id": 609, "content": "<x>", "lstrip": true, "rstrip": true, "normalized": true,
     "special": false}])";

const std::vector<std::pair<std::string, std::vector<int32_t>>>& TextsWithAddedTokens() {
  static const auto* const kTexts = new std::vector<std::pair<std::string, std::vector<int32_t>>>{
      {"a <cat-toy> on a red circle", {320, 604, 524, 320, 580, 545}},
      {"<CAT-TOY>", {604}},
      {"<cat>", {605}},
      {"<cat-toy>sx", {606, 343}},
      {"ab  CD", {607}},
      {"<Dog> <dog>", {608, 283, 67, 78, 326, 285}},
      {"red<x>circle", {580, 609, 545}},
      {"red <x> circle", {580, 609, 545}},
      {"a<|ENDOFTEXT|>b", {320, 27, 347, 68, 77, 67, 78, 69, 83, 68, 87, 339, 91, 285, 321}},
      {"<cat-toy><Cat>", {604, 605}},
  };
  return *kTexts;
}

class AddedTokensTest : public ClipTokenizerFolderTest {
 protected:
  void SetUp() override {
    for (const char* file : {"vocab.json", "merges.txt"}) {
      Write(file, *ReadFile(absl::StrCat(kTinySd, "/", file)));
    }
  }
  void ExpectTextsOfTransformers() {
    const auto tokenizer = ClipTokenizer::Load(folder_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ(tokenizer->vocab_size(), 610);
    for (const auto& [text, ids] : TextsWithAddedTokens()) {
      EXPECT_EQ(tokenizer->EncodeText(text), ids) << text;
    }
  }
};

TEST_F(AddedTokensTest, OfTokenizerJsonAgreeWithTransformers) {
  auto json = TokenizerJson(*ReadFile(absl::StrCat(folder_, "/vocab.json")),
                            *ReadFile(absl::StrCat(folder_, "/merges.txt")), true);
  json["added_tokens"] = nlohmann::ordered_json::parse(kAddedTokens);
  Write("tokenizer.json", json.dump());
  ExpectTextsOfTransformers();
  for (const char* file : {"vocab.json", "merges.txt"}) {
    ASSERT_TRUE(std::filesystem::remove(absl::StrCat(folder_, "/", file)));
  }
  ExpectTextsOfTransformers();
}

TEST_F(AddedTokensTest, OfTheConfigsDecoderAgreeWithTransformers) {
  nlohmann::ordered_json config;
  for (const auto& token : nlohmann::ordered_json::parse(kAddedTokens)) {
    config["added_tokens_decoder"][absl::StrCat(token["id"].get<int>())] = token;
  }
  Write("tokenizer_config.json", config.dump());
  Write("added_tokens.json", R"({"<not-read>": 610})");
  ExpectTextsOfTransformers();
}

// transformers matches tokens of added_tokens.json in the normalized text.
TEST_F(AddedTokensTest, OfTheirOwnFileAgreeWithTransformers) {
  Write("added_tokens.json", R"({"<cat-toy>": 604, "<Dog>": 605})");
  const auto tokenizer = ClipTokenizer::Load(folder_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->vocab_size(), 606);
  EXPECT_THAT(tokenizer->EncodeText("<cat-toy>sx"), ElementsAre(604, 82, 343));
  EXPECT_THAT(tokenizer->EncodeText("<Dog> <dog>"), ElementsAre(605, 605));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a <cat-toy>, red")), "a <cat-toy> , red");
}

// As in old configurations; the mark is then found in capitals, too.
TEST_F(AddedTokensTest, MarksMayBeNormalized) {
  Write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"603": {"content": "<|endoftext|>", "normalized": true,
            "special": true}}})");
  const auto tokenizer = ClipTokenizer::Load(folder_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(tokenizer->EncodeText("a<|ENDOFTEXT|>b"), ElementsAre(320, 603, 321));
}

TEST_F(AddedTokensTest, BadOnesAreNamed) {
  const auto error = [&](const std::string& content) {
    Write("added_tokens.json", content);
    return std::string(ClipTokenizer::Load(folder_).status().message());
  };
  EXPECT_THAT(error(R"({"<cat-toy>": -1})"),
              HasSubstr("/added_tokens.json: an added token's id is -1"));
  EXPECT_THAT(error(R"({"<cat-toy>": 2000000000})"), HasSubstr("\"<cat-toy>\" of id 2000000000"));
  EXPECT_THAT(error(R"({"<cat-toy>": 5})"), HasSubstr("id 5 belongs to \""));
  EXPECT_THAT(error(R"({"the</w>": 700})"),
              HasSubstr("the added token \"the</w>\" has the ids 700 and 593"));
  Write("added_tokens.json", "{}");
  for (const char* decoder :
       {R"({"x": {"content": "<a>"}})", R"({"604": "<a>"})",
        R"({"604": {"content": "<a>", "single_word": true}})", R"({"604": {"content": ""}})"}) {
    Write("tokenizer_config.json", absl::StrCat(R"({"added_tokens_decoder": )", decoder, "}"));
    EXPECT_EQ(ClipTokenizer::Load(folder_).status().code(), absl::StatusCode::kInvalidArgument)
        << decoder;
  }
}

// Parsers and destructors that recurse once per level run out of stack.
TEST_F(ClipTokenizerFolderTest, DeepFilesAreRefused) {
  const std::string deep =
      R"({"a": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                           "added_tokens.json", "vocab.json"}) {
    const std::string path = absl::StrCat(folder_, "/", file);
    const auto before = ReadFile(path);
    Write(file, deep);
    const auto tokenizer = ClipTokenizer::Load(folder_);
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << file;
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(folder_)) << file;
    EXPECT_LT(tokenizer.status().message().size(), 300) << file;
    std::filesystem::remove(path);
    if (before.ok()) Write(file, *before);
  }
}

TEST_F(ClipTokenizerFolderTest, BadConfigsAreNamed) {
  for (const char* config :
       {"nonsense", R"({"model_max_length": "many"})", R"({"model_max_length": 1})",
        R"({"model_max_length": -1e99})", R"({"model_max_length": NaN})", R"({"pad_token": 5})",
        R"({"eos_token": "<eos>"})"}) {
    Write("tokenizer_config.json", config);
    const auto tokenizer = ClipTokenizer::Load(folder_);
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << config;
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(folder_)) << config;
  }
  EXPECT_EQ(ClipTokenizer::Load("/no/such/folder").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace dpipe
