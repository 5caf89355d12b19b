// Damaged safetensors, config.json files and tokenizers.
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/tensor/safetensors.h"
#include "gtest/gtest.h"
#include "models/clip_text/clip_text.h"
#include "models/mmdit/flux_transformer.h"
#include "models/mmdit/sd3_transformer.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "models/unet/unet_config.h"
#include "models/vae/vae_config.h"
#include "tests/fuzz/mutation.h"

namespace dpipe {
namespace {

const std::vector<std::string>& JsonTokens() {
  static const auto* const tokens = new std::vector<std::string>{"{",
                                                                 "}",
                                                                 "[",
                                                                 "]",
                                                                 ":",
                                                                 ",",
                                                                 "\"",
                                                                 "null",
                                                                 "true",
                                                                 "-1",
                                                                 "1e400",
                                                                 "\\u0000",
                                                                 "\\ud800",
                                                                 "\xff",
                                                                 "\"shape\":",
                                                                 "\"dtype\":\"F32\"",
                                                                 "\"data_offsets\":[0,4]",
                                                                 "\"__metadata__\":",
                                                                 "[1,2]",
                                                                 "0.5"};
  return *tokens;
}

// Writes the length of the JSON header, a number of 8 bytes, little endian, in front of it.
void FixHeaderLength(size_t header_bytes, std::string* file) {
  if (file->size() < 8) return;
  for (int i = 0; i < 8; ++i) (*file)[i] = static_cast<char>(uint64_t{header_bytes} >> (8 * i));
}

fuzz::Material TensorFiles() {
  fuzz::Material material;
  material.files = {ReadFile("core/tensor/testdata/reference.safetensors").value()};
  const std::string header =
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]},"
      "\"__metadata__\":{\"format\":\"pt\"}}";
  material.files.push_back(std::string(8, '\0') + header + std::string(26, 'x'));
  FixHeaderLength(header.size(), &material.files.back());
  material.tokens = JsonTokens();
  return material;
}

TEST(ModelFilesFuzzTest, DamagedSafetensorsAreRefusedOrSound) {
  const fuzz::Material material = TensorFiles();
  int64_t num_read = 0;
  const int64_t num_iterations = fuzz::NumIterations(5000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(45, i, 0, RandomPurpose::kTest);
    std::string bytes = fuzz::DamagedFile(random, material);
    if (random.NextBelow(4) != 0) {
      const size_t end = bytes.rfind('}');
      if (end != std::string::npos && end >= 8) FixHeaderLength(end + 1 - 8, &bytes);
    }
    const auto file = SafetensorsFile::FromBytes(bytes, "damaged.safetensors");
    if (!file.ok()) {
      ASSERT_TRUE(absl::StartsWith(file.status().message(), "damaged.safetensors: "))
          << file.status();
      continue;
    }
    ++num_read;
    int64_t total = 0;
    unsigned sum = 0;
    for (const SafetensorsView& tensor : file->tensors()) {
      int64_t elements = 1;
      for (const int64_t side : tensor.shape) elements *= side;
      ASSERT_EQ(elements * SafetensorsElementBytes(tensor.dtype),
                static_cast<int64_t>(tensor.bytes.size()));
      ASSERT_NE(file->Find(tensor.name), nullptr);
      for (const char byte : tensor.bytes) sum += static_cast<uint8_t>(byte);
      total += tensor.bytes.size();
    }
    ASSERT_LE(total + sum * 0, bytes.size());
  }
  EXPECT_GT(num_read, num_iterations / 100);
  EXPECT_LT(num_read, num_iterations);
  EXPECT_LT(fuzz::PeakMemoryMb(), fuzz::MemoryLimitMb());
}

void ExpectNamed(const absl::Status& status, int64_t* num_errors) {
  if (status.ok()) return;
  ++*num_errors;
  EXPECT_TRUE(absl::StartsWith(status.message(), "damaged.json: ")) << status;
}

TEST(ModelFilesFuzzTest, DamagedConfigsAreRefusedOrRead) {
  fuzz::Material material;
  for (const char* component : {"unet", "vae", "text_encoder"}) {
    material.files.push_back(
        ReadFile(absl::StrCat("data/tiny_sd/", component, "/config.json")).value());
  }
  for (const char* transformer : {"flux_guided", "sd3_dual"}) {
    material.files.push_back(
        ReadFile(absl::StrCat("models/testdata/mmdit/", transformer, ".json")).value());
  }
  material.tokens = JsonTokens();
  int64_t num_errors = 0;
  const int64_t num_iterations = fuzz::NumIterations(3000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(46, i, 0, RandomPurpose::kTest);
    const std::string text = fuzz::DamagedFile(random, material);
    ExpectNamed(models::ParseUNetConfig(text, "damaged.json").status(), &num_errors);
    ExpectNamed(models::ParseVaeConfig(text, "damaged.json").status(), &num_errors);
    ExpectNamed(models::ParseClipTextConfig(text, "damaged.json").status(), &num_errors);
    ExpectNamed(models::ParseFluxTransformerConfig(text, "damaged.json").status(), &num_errors);
    ExpectNamed(models::ParseSd3TransformerConfig(text, "damaged.json").status(), &num_errors);
  }
  EXPECT_GT(num_errors, num_iterations);
  EXPECT_LT(num_errors, 5 * num_iterations);
  EXPECT_LT(fuzz::PeakMemoryMb(), fuzz::MemoryLimitMb());
}

TEST(ModelFilesFuzzTest, DamagedTokenizersAreRefusedOrEncode) {
  const std::string folder = "data/tiny_sd/tokenizer/";
  fuzz::Material vocabulary, merges;
  vocabulary.files = {ReadFile(folder + "vocab.json").value()};
  vocabulary.tokens = JsonTokens();
  merges.files = {ReadFile(folder + "merges.txt").value()};
  merges.tokens = {"\n", " ", "</w>", "a b", "#version", "\xc4\xa0"};
  const ClipTokenizerConfig config;
  int64_t num_read = 0;
  const int64_t num_iterations = fuzz::NumIterations(3000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(47, i, 0, RandomPurpose::kTest);
    std::string vocab_json = vocabulary.files[0], merges_txt = merges.files[0];
    if (random.NextBelow(2) == 0) fuzz::Mutate(random, vocabulary, &vocab_json);
    if (random.NextBelow(2) == 0) fuzz::Mutate(random, merges, &merges_txt);
    const auto tokenizer = ClipTokenizer::Create(vocab_json, merges_txt, config);
    if (!tokenizer.ok()) {
      ASSERT_FALSE(tokenizer.status().message().empty());
      continue;
    }
    ++num_read;
    std::string text = "a photo of a red circle \xf0\x9f\x98\x80";
    fuzz::Mutate(random, merges, &text);
    const std::vector<int32_t> ids = tokenizer->Encode(text);
    ASSERT_EQ(ids.size(), static_cast<size_t>(tokenizer->max_length()));
    for (const int32_t id : ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, tokenizer->vocab_size());
    }
    tokenizer->Decode(ids);
  }
  EXPECT_GT(num_read, num_iterations / 100);
  EXPECT_LT(num_read, num_iterations);
  EXPECT_LT(fuzz::PeakMemoryMb(), fuzz::MemoryLimitMb());
}

}  // namespace
}  // namespace dpipe
