#include "models/tokenizer/t5_tokenizer.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "core/base/philox.h"
#include "gtest/gtest.h"
#include "models/tokenizer/character_map.h"
#include "models/tokenizer/sentence_piece.pb.h"
#include "models/tokenizer/unigram_model.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

const char kFolder[] = "models/tokenizer/testdata/t5";

std::string ModelBytes() {
  const auto bytes = ReadFile(std::string(kFolder) + "/spiece.model");
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return *bytes;
}

// testdata/make_t5_goldens.py
TEST(T5TokenizerTest, AgreesWithSentencePiece) {
  const auto tokenizer = T5Tokenizer::Load(kFolder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->vocab_size(), 1600);
  EXPECT_EQ(tokenizer->pad_id(), 0);
  EXPECT_EQ(tokenizer->eos_id(), 1);
  const auto goldens = ReadFile(std::string(kFolder) + "/goldens.jsonl");
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  const std::vector<std::string> lines = absl::StrSplit(*goldens, '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), 424u);
  for (const std::string& line : lines) {
    const Json golden = Json::parse(line);
    EXPECT_EQ(tokenizer->EncodeText(golden["text"].get<std::string>()), golden["ids"].get<Ids>())
        << line;
  }
}

TEST(T5TokenizerTest, EncodeCutsEndsAndPads) {
  const auto tokenizer = T5Tokenizer::Load(kFolder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const Ids ids = tokenizer->EncodeText("a photo of a cat");
  ASSERT_GT(ids.size(), 4u);
  EXPECT_EQ(tokenizer->NumTokens("a photo of a cat"), static_cast<int>(ids.size()) + 1);
  EXPECT_EQ(tokenizer->Encode("a photo of a cat", 4), (Ids{ids[0], ids[1], ids[2], 1}));
  Ids padded = ids;
  padded.insert(padded.end(), {1, 0, 0, 0});
  EXPECT_EQ(tokenizer->Encode("a photo of a cat", static_cast<int>(padded.size())), padded);
  EXPECT_EQ(tokenizer->Encode("", 3), (Ids{1, 0, 0}));
  EXPECT_EQ(tokenizer->Encode("a photo of a cat", 1), (Ids{1}));
}

// A model with a few pieces and no character map.
spiece::Model SmallModel() {
  spiece::Model model;
  const auto add = [&](const char* text, float score, spiece::Piece::Type type) {
    spiece::Piece* piece = model.add_pieces();
    piece->set_piece(text);
    piece->set_score(score);
    piece->set_type(type);
  };
  add("<pad>", 0, spiece::Piece::CONTROL);
  add("</s>", 0, spiece::Piece::CONTROL);
  add("<unk>", 0, spiece::Piece::UNKNOWN);
  add("\xe2\x96\x81", -1, spiece::Piece::NORMAL);
  add("a", -4, spiece::Piece::NORMAL);
  add("b", -4, spiece::Piece::NORMAL);
  add("ab", -5, spiece::Piece::NORMAL);
  add("ba", -3, spiece::Piece::NORMAL);
  return model;
}

TEST(UnigramModelTest, TakesTheBestSum) {
  const auto model = UnigramModel::Parse(SmallModel().SerializeAsString());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->Encode("ab"), (Ids{3, 6}));      // -5 beats -8
  EXPECT_EQ(model->Encode("aba"), (Ids{3, 4, 7}));  // a ba -7 beats ab a -9
  EXPECT_EQ(model->Encode("  b   a "), (Ids{3, 5, 3, 4}));
  EXPECT_EQ(model->Encode("xyb"), (Ids{3, 2, 5}));  // one token for adjacent unknown characters
  EXPECT_EQ(model->Encode("\xc3\xa4 x"), (Ids{3, 2, 3, 2}));
  EXPECT_EQ(model->Normalize("a\xff"),
            "\xe2\x96\x81"
            "a\xef\xbf\xbd");
  EXPECT_EQ(model->Encode(""), Ids());
}

TEST(UnigramModelTest, FollowsTheSettingsOfNormalization) {
  spiece::Model file = SmallModel();
  file.mutable_normalizer_spec()->set_add_dummy_prefix(false);
  file.mutable_normalizer_spec()->set_remove_extra_whitespaces(false);
  file.mutable_normalizer_spec()->set_escape_whitespaces(false);
  EXPECT_EQ(UnigramModel::Parse(file.SerializeAsString())->Normalize(" a  b "), " a  b ");
  file.mutable_normalizer_spec()->set_escape_whitespaces(true);
  file.mutable_normalizer_spec()->set_remove_extra_whitespaces(true);
  EXPECT_EQ(UnigramModel::Parse(file.SerializeAsString())->Normalize(" a  b "),
            "a\xe2\x96\x81"
            "b");
}

TEST(UnigramModelTest, ProblemsAreNamed) {
  const auto error = [](const spiece::Model& model) {
    return std::string(UnigramModel::Parse(model.SerializeAsString()).status().message());
  };
  EXPECT_EQ(UnigramModel::Parse("\xff\xff").status().message(), "not a SentencePiece model");
  EXPECT_EQ(UnigramModel::Parse("").status().message(), "not a SentencePiece model");
  spiece::Model model = SmallModel();
  model.mutable_trainer_spec()->set_model_type(spiece::TrainerSpec::BPE);
  EXPECT_EQ(error(model), "the SentencePiece model is of type BPE; supported: UNIGRAM");
  model = SmallModel();
  model.mutable_trainer_spec()->set_byte_fallback(true);
  EXPECT_EQ(error(model), "the SentencePiece model falls back to bytes, which is not supported");
  model = SmallModel();
  model.mutable_pieces(5)->set_piece("a");
  EXPECT_EQ(error(model), "the SentencePiece model has the piece a twice");
  model = SmallModel();
  model.mutable_pieces(2)->set_type(spiece::Piece::CONTROL);
  EXPECT_EQ(error(model), "the SentencePiece model has no unknown token");
  model = SmallModel();
  model.mutable_pieces(1)->set_piece("end");
  EXPECT_EQ(T5Tokenizer::Create(model.SerializeAsString()).status().message(),
            "T5's vocabulary has no token </s>");
  EXPECT_EQ(CharacterMap::Parse(std::string("\x08\0\0\0abcd\0", 9)).status().message(),
            "character map: its trie has 8 of the other 5 bytes; expected a multiple of 4 up to "
            "that");
  EXPECT_EQ(CharacterMap::Parse(std::string("\x04\0\0\0abcde", 9)).status().message(),
            "character map: its last replacement has no end");
}

TEST(T5TokenizerTest, LoadNamesTheFile) {
  const ScratchFolder folder;
  EXPECT_TRUE(absl::IsNotFound(T5Tokenizer::Load(folder.path()).status()));
  ASSERT_TRUE(WriteFileAtomically(folder.File("spiece.model"), "x").ok());
  EXPECT_EQ(T5Tokenizer::Load(folder.path()).status().message(),
            folder.File("spiece.model") + ": not a SentencePiece model");
  ASSERT_TRUE(
      WriteFileAtomically(folder.File("tokenizer_config.json"), R"({"extra_ids": -1})").ok());
  EXPECT_EQ(T5Tokenizer::Load(folder.path()).status().message(),
            folder.File("tokenizer_config.json") +
                ": extra_ids is -1; expected an integer from 0 to 100000");
  ASSERT_TRUE(WriteFileAtomically(folder.File("spiece.model"), ModelBytes()).ok());
  ASSERT_TRUE(
      WriteFileAtomically(folder.File("tokenizer_config.json"), R"({"extra_ids": 7})").ok());
  const auto tokenizer = T5Tokenizer::Load(folder.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->vocab_size(), 1507);
  EXPECT_EQ(tokenizer->EncodeText("<extra_id_0>"), (Ids{1506}));
}

// Damaged files must not crash or read out of bounds; the address sanitizer checks the latter.
TEST(UnigramModelTest, SurvivesDamagedFiles) {
  const std::string bytes = ModelBytes();
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  int parsed = 0;
  for (int round = 0; round < 60; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 50; ++i) {
      damaged[random.NextBelow(static_cast<uint32_t>(damaged.size()))] =
          static_cast<char>(random.NextUint32());
    }
    const auto model = UnigramModel::Parse(damaged);
    if (!model.ok()) continue;
    ++parsed;
    std::string text;
    for (int i = 0; i < 300; ++i) text += static_cast<char>(random.NextUint32());
    for (const int32_t id : model->Encode(text)) {
      ASSERT_TRUE(0 <= id && id < model->num_pieces()) << id;
    }
  }
  EXPECT_GT(parsed, 5);
}

}  // namespace
}  // namespace dpipe
