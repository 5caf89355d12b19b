#include "models/tokenizer/t5_tokenizer.h"

#include "absl/strings/escaping.h"
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
  const auto tokenizer = T5Tokenizer::Load(kFolder, 512);
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
  const auto encode = [](const char* text, int length) {
    const auto tokenizer = T5Tokenizer::Create(ModelBytes(), length);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ(tokenizer->max_length(), length);
    return tokenizer->Encode(text);
  };
  const auto tokenizer = T5Tokenizer::Load(kFolder, 512);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const Ids ids = tokenizer->EncodeText("a photo of a cat");
  ASSERT_GT(ids.size(), 4u);
  EXPECT_EQ(tokenizer->NumTokens("a photo of a cat"), static_cast<int>(ids.size()) + 1);
  EXPECT_EQ(encode("a photo of a cat", 4), (Ids{ids[0], ids[1], ids[2], 1}));
  Ids padded = ids;
  padded.insert(padded.end(), {1, 0, 0, 0});
  EXPECT_EQ(encode("a photo of a cat", static_cast<int>(padded.size())), padded);
  EXPECT_EQ(encode("", 3), (Ids{1, 0, 0}));
  EXPECT_EQ(encode("a photo of a cat", 1), (Ids{1}));
}

// The parts of a tokenizer.json that transformers 5 writes for this model.
Json TokenizerJson() {
  spiece::Model model;
  EXPECT_TRUE(model.ParseFromString(ModelBytes()));
  Json json;
  json["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Precompiled"},
         {"precompiled_charsmap",
          absl::Base64Escape(model.normalizer_spec().precompiled_charsmap())}},
        {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}}}};
  json["model"] = {{"type", "Unigram"}, {"unk_id", 2}, {"byte_fallback", false}};
  const auto add = [&](const std::string& text, float score, bool added, bool special) {
    const int id = static_cast<int>(json["model"]["vocab"].size());
    json["model"]["vocab"].push_back({text, score});
    if (!added) return;
    json["added_tokens"].push_back({{"id", id}, {"content", text}, {"special", special}});
  };
  for (const spiece::Piece& piece : model.pieces()) {
    const bool normal = piece.type() == spiece::Piece::NORMAL;
    add(piece.piece(), piece.score(), !normal, piece.type() != spiece::Piece::USER_DEFINED);
  }
  for (int i = 99; i >= 0; --i) add("<extra_id_" + std::to_string(i) + ">", 0, true, true);
  return json;
}

TEST(T5TokenizerTest, ReadsTheFileOfTransformers5) {
  const ScratchFolder folder;
  const std::string file = folder.File("tokenizer.json");
  Json json = TokenizerJson();
  ASSERT_TRUE(WriteFileAtomically(file, json.dump()).ok());
  const auto tokenizer = T5Tokenizer::Load(folder.path(), 512);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->vocab_size(), 1600);
  const auto goldens = ReadFile(std::string(kFolder) + "/goldens.jsonl");
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  for (const absl::string_view line : absl::StrSplit(*goldens, '\n', absl::SkipEmpty())) {
    const Json golden = Json::parse(line);
    EXPECT_EQ(tokenizer->EncodeText(golden["text"].get<std::string>()), golden["ids"].get<Ids>())
        << line;
  }
  const auto error = [&](const Json& changed) {
    EXPECT_TRUE(WriteFileAtomically(file, changed.dump()).ok());
    return std::string(T5Tokenizer::Load(folder.path(), 512).status().message());
  };
  json["model"]["type"] = "BPE";
  EXPECT_EQ(error(json), file + ": the model is of type \"BPE\"; supported: \"Unigram\"");
  json["model"] = {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", {{1, "a"}}}};
  EXPECT_TRUE(absl::StartsWith(error(json), file + ": not a tokenizer of T5: ")) << error(json);
}

TEST(T5TokenizerTest, ReadsTheMaximumLength) {
  const ScratchFolder folder;
  EXPECT_EQ(*ReadModelMaxLength(folder.path(), 256), 256);
  const std::string file = folder.File("tokenizer_config.json");
  const auto read = [&](const char* json) {
    EXPECT_TRUE(WriteFileAtomically(file, json).ok());
    return ReadModelMaxLength(folder.path(), 256);
  };
  EXPECT_EQ(*read(R"({"model_max_length": 1000000000000000019884624838656})"), 256);
  EXPECT_EQ(*read(R"({"model_max_length": 32})"), 32);
  EXPECT_EQ(read(R"({"model_max_length": "32"})").status().message(),
            file + ": model_max_length is \"32\"; expected a number of at least 1");
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
  EXPECT_EQ(T5Tokenizer::Create(model.SerializeAsString(), 512).status().message(),
            "T5's vocabulary has no token </s>");
  EXPECT_EQ(CharacterMap::Parse(std::string("\x08\0\0\0abcd\0", 9)).status().message(),
            "character map: its trie has 8 of the other 5 bytes; expected a multiple of 4 up to "
            "that");
  EXPECT_EQ(CharacterMap::Parse(std::string("\x04\0\0\0abcde", 9)).status().message(),
            "character map: its last replacement has no end");
}

TEST(T5TokenizerTest, LoadNamesTheFile) {
  const ScratchFolder folder;
  EXPECT_TRUE(absl::IsNotFound(T5Tokenizer::Load(folder.path(), 512).status()));
  ASSERT_TRUE(WriteFileAtomically(folder.File("spiece.model"), "x").ok());
  EXPECT_EQ(T5Tokenizer::Load(folder.path(), 512).status().message(),
            folder.File("spiece.model") + ": not a SentencePiece model");
  ASSERT_TRUE(
      WriteFileAtomically(folder.File("tokenizer_config.json"), R"({"extra_ids": -1})").ok());
  EXPECT_EQ(T5Tokenizer::Load(folder.path(), 512).status().message(),
            folder.File("tokenizer_config.json") +
                ": extra_ids is -1; expected an integer from 0 to 100000");
  ASSERT_TRUE(WriteFileAtomically(folder.File("spiece.model"), ModelBytes()).ok());
  ASSERT_TRUE(
      WriteFileAtomically(folder.File("tokenizer_config.json"), R"({"extra_ids": 7})").ok());
  const auto tokenizer = T5Tokenizer::Load(folder.path(), 512);
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
