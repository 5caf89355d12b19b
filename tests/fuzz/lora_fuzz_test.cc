// Damaged files of low-rank adapters, and damaged PEFT configurations beside them.
#include <cmath>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "core/tensor/safetensors.h"
#include "gtest/gtest.h"
#include "models/lora/adapter_config.h"
#include "models/lora/lora.h"
#include "tests/fuzz/mutation.h"

namespace dpipe {
namespace {

// Does not flush, because thousands of flushes would take minutes on some disks.
void WriteQuickly(const std::string& path, const std::string& content) {
  FILE* file = fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(fwrite(content.data(), 1, content.size(), file), content.size());
  fclose(file);
}

models::LoraTargets Targets() {
  return {models::AdaptableLayers(std::set<std::string>{"a.to_q", "a.to_k", "b.conv"}),
          models::AdaptableLayers(std::set<std::string>{"text_model.e.fc1"})};
}

// Returns the targets' weights, which the files' adapters fit.
models::NamedTensors Weights() {
  models::NamedTensors weights;
  for (const char* layer : {"a.to_q", "a.to_k", "text_model.e.fc1"}) {
    weights[absl::StrCat(layer, ".weight")] =
        Tensor::Zeros(Device::Cpu(), Shape({3, 2}), DType::kF32);
  }
  weights["b.conv.weight"] = Tensor::Zeros(Device::Cpu(), Shape({3, 2, 3, 3}), DType::kF32);
  return weights;
}

// Makes a file of adapters of rank 2 for all layers. `down`, `up` and `alpha` are appended to each
// layer's name.
std::string AdapterFile(const ScratchFolder& scratch, const std::vector<std::string>& layers,
                        const std::string& down, const std::string& up, const std::string& alpha,
                        const std::string& metadata) {
  const std::vector<float> numbers(36, 0.5f);
  const auto bytes = [&numbers](size_t count) {
    return absl::string_view(reinterpret_cast<const char*>(numbers.data()), count * sizeof(float));
  };
  std::vector<SafetensorsView> views;
  for (const std::string& layer : layers) {
    const bool is_conv = absl::StrContains(layer, "conv");
    views.push_back({layer + down, "F32",
                     is_conv ? std::vector<int64_t>{2, 2, 3, 3} : std::vector<int64_t>{2, 2},
                     bytes(is_conv ? 36 : 4)});
    views.push_back({layer + up, "F32", {3, 2}, bytes(6)});
    if (!alpha.empty()) views.push_back({layer + alpha, "F32", {}, bytes(1)});
  }
  SafetensorsWriteOptions options;
  if (!metadata.empty()) options.metadata.push_back({"lora_adapter_metadata", metadata});
  const std::string path = scratch.path() + "/whole.safetensors";
  EXPECT_TRUE(WriteSafetensors(path, views, options).ok());
  return ReadFile(path).value();
}

fuzz::Material AdapterFiles(const ScratchFolder& scratch) {
  fuzz::Material material;
  material.files = {
      AdapterFile(scratch, {"unet.a.to_q", "unet.b.conv", "text_encoder.e.fc1"}, ".lora_A.weight",
                  ".lora_B.weight", "", R"({"unet.r": 2, "unet.lora_alpha": 4})"),
      AdapterFile(scratch, {"base_model.model.a.to_q", "base_model.model.a.to_k"},
                  ".lora_A.default.weight", ".lora_B.default.weight", "", ""),
      AdapterFile(scratch, {"lora_unet_a_to_q", "lora_unet_b_conv", "lora_te1_e_fc1"},
                  ".lora_down.weight", ".lora_up.weight", ".alpha", "")};
  material.tokens = {"lora_unet_",      "lora_te_",   "base_model.model.", "unet.", ".lora_A.",
                     ".lora_up.weight", ".alpha",     "module.",           "\"",    "F16",
                     "\\u0000",         "dora_scale", "text_model.",       "_",     "[2,2]"};
  return material;
}

void FixHeaderLength(std::string* file) {
  const size_t end = file->rfind('}');
  if (end == std::string::npos || end < 8) return;
  for (int i = 0; i < 8; ++i) {
    (*file)[i] = static_cast<char>(uint64_t{end + 1 - 8} >> (8 * i));
  }
}

constexpr char kConfig[] = R"json({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none",
    "use_rslora": true, "rank_pattern": {"to_k": 2, "^b\\..*": 2},
    "alpha_pattern": {"a.(to_q|to_v)": 3, "[a-z]+.fc\\d": 1.5}})json";

TEST(LoraFuzzTest, DamagedFilesAreRefusedOrMerged) {
  const ScratchFolder scratch(ScratchFolder::Place::kMemory);
  const fuzz::Material files = AdapterFiles(scratch);
  fuzz::Material configs;
  configs.files = {kConfig};
  configs.tokens = {"{",  "}",     "[", "]", ",", "\"", "null",
                    "-1", "1e400", "*", "+", "(", "|",  "NaN"};
  const std::string path = scratch.path() + "/adapter_model.safetensors";
  const std::string config_path = scratch.path() + "/adapter_config.json";
  const models::LoraTargets targets = Targets();
  const models::NamedTensors weights = Weights();
  int64_t num_read = 0, num_merged = 0;
  const int64_t num_iterations = fuzz::NumIterations(5000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(51, i, 0, RandomPurpose::kTest);
    std::string bytes = files.files[random.NextBelow(3)], config = kConfig;
    if (random.NextBelow(4) != 0) fuzz::Mutate(random, files, &bytes);
    if (random.NextBelow(4) != 0) FixHeaderLength(&bytes);
    if (random.NextBelow(2) == 0) fuzz::Mutate(random, configs, &config);
    ASSERT_NO_FATAL_FAILURE(WriteQuickly(path, bytes));
    ASSERT_NO_FATAL_FAILURE(WriteQuickly(config_path, config));
    const auto adapters = models::LoadLora(path, 1, targets);
    if (!adapters.ok()) {
      ASSERT_TRUE(absl::StartsWith(adapters.status().message(), scratch.path()))
          << adapters.status();
      continue;
    }
    ++num_read;
    for (const models::NamedTensors& component : {adapters->unet, adapters->text_encoder}) {
      for (const auto& [name, tensor] : component) {
        for (const float x : tensor.span<float>()) ASSERT_TRUE(std::isfinite(x)) << name;
      }
      // Not for each, because it starts threads.
      if (i % 8 == 0) num_merged += models::MergeLora(weights, component, 1).ok();
    }
  }
  EXPECT_GT(num_read, num_iterations / 50);
  EXPECT_GT(num_merged, 0);
  EXPECT_LT(num_read, num_iterations);
  EXPECT_LT(fuzz::PeakMemoryMb(), fuzz::MemoryLimitMb());
}

TEST(LoraFuzzTest, DamagedPatternsAreRefusedOrMatchInBoundedTime) {
  fuzz::Material patterns;
  patterns.files = {"^mid_block\\..*\\.to_(q|v)", "(((a*)*)*)*b", "[a-z]+\\.\\d+", "(.*)(.*)(.*)x",
                    "attn1.to_q"};
  patterns.tokens = {"(", ")", "*", "+?", "|", "[^", "]", "\\", "(?=", "{9999}", ".*", "\\b", "$"};
  const std::string layer = "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_out.0";
  int64_t num_read = 0;
  const int64_t num_iterations = fuzz::NumIterations(1000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(52, i, 0, RandomPurpose::kTest);
    const auto pattern = models::LayerPattern::Create(fuzz::DamagedFile(random, patterns));
    if (!pattern.ok()) continue;
    ++num_read;
    pattern->Matches(layer);
  }
  EXPECT_GT(num_read, num_iterations / 20);
  EXPECT_LT(num_read, num_iterations);
}

}  // namespace
}  // namespace dpipe
