#include "models/weights/weights.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/program_builder.h"
#include "core/tensor/safetensors.h"
#include "gtest/gtest.h"
#include "models/clip_text/clip_text.h"
#include "models/vae/vae.h"

namespace dpipe::models {
namespace {

const char kTinySd[] = "data/tiny_sd";

std::string TestPath(const std::string& name) { return testing::TempDir() + "/" + name; }

// Returns a program with the parameters <name>.weight [2, 3] and <name>.bias [2].
nn::Program Small(const std::string& name = "a.to_q") {
  nn::ProgramBuilder builder("small");
  const ValueId x = builder.AddInput("x", {Shape({3}), nn::Element::kCompute});
  builder.BeginLayer("layer", nn::LayerKind::kTrainable);
  builder.MarkOutput(nn::AddLinear(&builder, name, x, {2}), "y");
  return builder.Build();
}

template <typename T>
SafetensorsView View(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
                     const std::vector<T>& values) {
  return {
      name, dtype, std::move(shape),
      absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

std::vector<float> Values(const Tensor& t) {
  return {t.span<float>().begin(), t.span<float>().end()};
}

TEST(WeightsTest, ReadsAllThreeTypesAndOldNames) {
  const nn::Program program = Small();
  const std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x8000};
  const std::vector<Bf16> brains = {Bf16(1.5f), Bf16(-3.0f)};
  const std::vector<int64_t> positions = {0, 1};
  const std::string path = TestPath("old.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, {View("a.query.weight", "F16", {2, 3}, halves),
                                      View("a.query.bias", "BF16", {2}, brains),
                                      View("embeddings.position_ids", "I64", {1, 2}, positions)})
                  .ok());
  const auto tensors = LoadWeights(path, {&program}, Device::Cpu());
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(Values(tensors->at("a.to_q.bias")), (std::vector<float>{1.5f, -3}));
  EXPECT_EQ(Values(tensors->at("a.to_q.weight")),
            (std::vector<float>{1, -2, 0.333251953125f, std::ldexp(1.0f, -24), 65504, 0}));
}

TEST(WeightsTest, NonFiniteValuesAreRefused) {
  const nn::Program program = Small("a");
  for (const float bad : {NAN, INFINITY}) {
    const std::vector<float> six(6), two = {0, bad};
    const std::string path = TestPath("not_finite.safetensors");
    ASSERT_TRUE(WriteSafetensors(
                    path, {View("a.weight", "F32", {2, 3}, six), View("a.bias", "F32", {2}, two)})
                    .ok());
    const std::string message(LoadWeights(path, {&program}, Device::Cpu()).status().message());
    EXPECT_NE(message.find(path + ": a.bias holds " + (std::isnan(bad) ? "nan" : "inf") +
                           " (element 1): "),
              std::string::npos)
        << message;
  }
}

TEST(WeightsTest, ListsEverythingThatDoesNotFit) {
  const nn::Program a = Small("a"), b = Small("b");
  const std::vector<float> six(6), two(2);
  const std::vector<int64_t> integers(2);
  const std::string path = TestPath("bad.safetensors");
  ASSERT_TRUE(
      WriteSafetensors(path, {View("a.weight", "F32", {3, 2}, six),
                              View("a.bias", "I64", {2}, integers), View("b.bias", "F32", {2}, two),
                              View("c", "F32", {2}, two), View("d.e", "F32", {2}, two)})
          .ok());
  const std::string message(LoadWeights(path, {&a, &b}, Device::Cpu()).status().message());
  EXPECT_NE(message.find("\n  1 missing: b.weight\n  2 surplus: c, d.e\n  2 wrong: "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("a.bias is I64 [2], expected [2] of F32, F16, BF16 or F8_E4M3"),
            std::string::npos);
  EXPECT_NE(message.find("a.weight is F32 [3, 2], expected [2, 3]"), std::string::npos);
  LoadWeightsOptions options;
  options.ignored_prefixes = {"d.", "c"};
  EXPECT_EQ(LoadWeights(path, {&a, &b}, Device::Cpu(), options).status().message().find("surplus"),
            absl::string_view::npos);
}

// FLUX.1 is published in it. All 256 numbers are compared with the definition of the format, OCP's
// 8-bit floating point specification: bias 7, no infinities, NaN with all bits but the sign.
TEST(WeightsTest, ReadsFp8) {
  nn::ProgramBuilder builder("fp8");
  const ValueId x = builder.AddInput("x", {Shape({254}), nn::Element::kCompute});
  builder.BeginLayer("a", nn::LayerKind::kTrainable);
  builder.MarkOutput(nn::AddLinear(&builder, "a", x, {1, /*bias=*/false}), "y");
  const nn::Program program = builder.Build();
  std::vector<uint8_t> bits;
  for (int i = 0; i < 256; ++i) {
    if ((i & 0x7f) != 0x7f) bits.push_back(static_cast<uint8_t>(i));
  }
  const std::string path = TestPath("fp8.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, {View("a.weight", "F8_E4M3", {1, 254}, bits)}).ok());
  const auto weights = LoadWeights(path, {&program}, Device::Cpu());
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (size_t i = 0; i < bits.size(); ++i) {
    const int exponent = bits[i] >> 3 & 15;
    const double significand = (bits[i] & 7) / 8.0 + (exponent > 0 ? 1 : 0);
    const double magnitude = significand * std::pow(2.0, std::max(exponent, 1) - 7);
    EXPECT_EQ(weights->at("a.weight").data<float>()[i], bits[i] < 128 ? magnitude : -magnitude)
        << static_cast<int>(bits[i]);
  }
  bits[3] = 0xff;
  ASSERT_TRUE(WriteSafetensors(path, {View("a.weight", "F8_E4M3", {1, 254}, bits)}).ok());
  EXPECT_EQ(LoadWeights(path, {&program}, Device::Cpu()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// torch.compile and DataParallel put a prefix before every name.
TEST(WeightsTest, PrefixesOfWrappersAreIgnored) {
  const nn::Program program = Small();
  const std::vector<float> six = {1, 2, 3, 4, 5, 6}, two = {7, 8};
  const std::string path = TestPath("wrapped.safetensors");
  for (const std::string wrapper :
       {"_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module."}) {
    ASSERT_TRUE(WriteSafetensors(path, {View(wrapper + "a.to_q.weight", "F32", {2, 3}, six),
                                        View(wrapper + "a.to_q.bias", "F32", {2}, two)})
                    .ok());
    EXPECT_EQ(OpenWeights(path)->wrapper, wrapper);
    const auto tensors = LoadWeights(path, {&program}, Device::Cpu());
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    EXPECT_EQ(Values(tensors->at("a.to_q.weight")), six);
  }
  // A prefix of only some names belongs to these names.
  ASSERT_TRUE(WriteSafetensors(path, {View("module.a.to_q.weight", "F32", {2, 3}, six),
                                      View("a.to_q.bias", "F32", {2}, two)})
                  .ok());
  EXPECT_EQ(OpenWeights(path)->wrapper, "");
  EXPECT_NE(LoadWeights(path, {&program}, Device::Cpu())
                .status()
                .message()
                .find("1 surplus: module.a.to_q.weight"),
            std::string::npos);
}

TEST(WeightsTest, ListsAreShort) {
  const nn::Program program = Small();
  const std::vector<float> two(2);
  std::vector<SafetensorsView> views;
  for (int i = 0; i < 686; ++i) {
    views.push_back(View("down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q." +
                             std::to_string(1000 + i) + ".weight",
                         "F32", {2}, two));
  }
  const std::string path = TestPath("many.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, views).ok());
  const std::string message(LoadWeights(path, {&program}, Device::Cpu()).status().message());
  EXPECT_NE(message.find("686 surplus: down_blocks.0."), std::string::npos) << message;
  EXPECT_NE(message.find(" and 684 more"), std::string::npos) << message;
  for (const absl::string_view line : absl::StrSplit(message, '\n')) EXPECT_LE(line.size(), 300u);
}

TEST(WeightsTest, TheOriginalLayoutIsNamed) {
  const nn::Program program = Small();
  const std::vector<float> two(2);
  for (const std::string name :
       {"model.diffusion_model.input_blocks.0.0.bias", "input_blocks.0.0.bias",
        "first_stage_model.encoder.conv_in.bias", "decoder.up.0.block.0.conv1.bias",
        "cond_stage_model.transformer.text_model.final_layer_norm.bias"}) {
    const std::string path = TestPath("original.safetensors");
    ASSERT_TRUE(WriteSafetensors(path, {View(name, "F32", {2}, two)}).ok());
    const std::string message(LoadWeights(path, {&program}, Device::Cpu()).status().message());
    EXPECT_EQ(
        message.find(path + ": the names have the original layout (" + name + "), not diffusers'"),
        0u)
        << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(WeightsTest, TheSameParameterTwiceIsRefused) {
  const nn::Program program = Small();
  const std::vector<float> six(6), two(2);
  const std::string path = TestPath("twice.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, {View("a.to_q.weight", "F32", {2, 3}, six),
                                      View("a.to_q.bias", "F32", {2}, two),
                                      View("a.query.bias", "F32", {2}, two)})
                  .ok());
  const std::string message(LoadWeights(path, {&program}, Device::Cpu()).status().message());
  EXPECT_NE(message.find("(a.to_q.bias again)"), std::string::npos) << message;
}

TEST(WeightsTest, MissingFiles) {
  const nn::Program program = Small();
  const std::string folder = TestPath("empty_folder");
  ASSERT_TRUE(MakeFolder(folder).ok());
  EXPECT_EQ(
      LoadWeights(folder, {&program}, Device::Cpu()).status().message(),
      folder + ": neither diffusion_pytorch_model.safetensors nor model.safetensors was found");
  EXPECT_EQ(LoadWeights(TestPath("nothing"), {&program}, Device::Cpu()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(WeightsTest, TinySdRoundTripsByteForByte) {
  const std::string folder = std::string(kTinySd) + "/vae";
  const auto config = ReadVaeConfig(folder + "/config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto encoder = BuildVaeEncoder(*config, 64, 64);
  const auto decoder = BuildVaeDecoder(*config, 64, 64);
  const auto tensors = LoadWeights(folder, {&*encoder, &*decoder}, Device::Cpu());
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const std::string path = TestPath("vae.safetensors");
  ASSERT_TRUE(SaveWeights(path, *tensors).ok());
  EXPECT_TRUE(*ReadFile(path) == *ReadFile(folder + "/" + kDiffusersWeights));
  LoadWeightsOptions options;
  options.ignored_prefixes = {"decoder.", "post_quant_conv."};
  EXPECT_TRUE(LoadWeights(folder, {&*encoder}, Device::Cpu(), options).ok());
  EXPECT_FALSE(LoadWeights(folder, {&*encoder}, Device::Cpu()).ok());
}

TEST(WeightsTest, TextEncoderNamesWithAndWithoutPrefix) {
  const std::string folder = std::string(kTinySd) + "/text_encoder";
  const auto config = ReadClipTextConfig(folder + "/config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto program = BuildClipText(*config, 32);
  const auto tensors = LoadWeights(folder, {&*program}, Device::Cpu());
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->count("text_model.final_layer_norm.weight"), 1);
  const std::string path = TestPath("text.safetensors");
  ASSERT_TRUE(SaveWeights(path, *tensors).ok());
  EXPECT_TRUE(LoadWeights(path, {&*program}, Device::Cpu()).ok());
}

// A 16-bit file that is stored in its own format is written back byte for byte.
TEST(WeightsTest, SixteenBitFilesRoundTripByteForByte) {
  const std::string folder = std::string(kTinySd) + "/text_encoder";
  const auto config = ReadClipTextConfig(folder + "/config.json");
  const auto program = BuildClipText(*config, 32);
  const auto tensors = LoadWeights(folder, {&*program}, Device::Cpu());
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  for (const StoredFormat format : {StoredFormat::kFp16, StoredFormat::kBf16}) {
    const std::string first = TestPath("first.safetensors"),
                      second = TestPath("second.safetensors");
    ASSERT_TRUE(SaveWeights(first, *tensors, format).ok());
    const auto rounded = LoadWeights(first, {&*program}, Device::Cpu());
    ASSERT_TRUE(rounded.ok()) << rounded.status();
    ASSERT_TRUE(SaveWeights(second, *rounded, format).ok());
    EXPECT_TRUE(*ReadFile(first) == *ReadFile(second));
    // Half the bytes; normal numbers are rounded by at most 2^-11 or 2^-8 of their size.
    const double precision = format == StoredFormat::kFp16 ? 1.0 / 2048 : 1.0 / 256;
    EXPECT_EQ(SafetensorsFile::Open(first)->tensors()[0].dtype,
              format == StoredFormat::kFp16 ? "F16" : "BF16");
    for (const auto& [name, tensor] : *tensors) {
      const float* a = tensor.data<float>();
      const float* b = rounded->at(name).data<float>();
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        ASSERT_LE(std::fabs(a[i] - b[i]), std::fabs(a[i]) * precision + 3e-8) << name;
      }
    }
  }
}

TEST(WeightsTest, BothTransformerProjections) {
  nn::ProgramBuilder builder("projections");
  const ValueId x = builder.AddInput("x", {Shape({2, 2, 3}), nn::Element::kCompute});
  builder.BeginLayer("layer", nn::LayerKind::kTrainable);
  const ValueId y = nn::AddConv2d(&builder, "conv", x, {2, 1, ops::Conv2dSymmetric(1, 0)});
  builder.MarkOutput(nn::AddLinear(&builder, "linear", y, {3}), "y");
  const nn::Program program = builder.Build();
  ASSERT_EQ(program.parameter(nn::ParameterId(0)).shape, Shape({2, 3, 1, 1}));
  const std::vector<float> six = {1, 2, 3, 4, 5, 6}, two(2), three(3);
  const std::string path = TestPath("projections.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, {View("conv.weight", "F32", {2, 3}, six),
                                      View("conv.bias", "F32", {2}, two),
                                      View("linear.weight", "F32", {3, 2, 1, 1}, six),
                                      View("linear.bias", "F32", {3}, three)})
                  .ok());
  const auto tensors = LoadWeights(path, {&program}, Device::Cpu());
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->at("conv.weight").shape(), Shape({2, 3, 1, 1}));
  EXPECT_EQ(tensors->at("linear.weight").shape(), Shape({3, 2}));
  EXPECT_EQ(Values(tensors->at("conv.weight")), six);
  EXPECT_EQ(Values(tensors->at("linear.weight")), six);
  // A larger kernel or other channels mean another model.
  const std::vector<float> many(54);
  ASSERT_TRUE(WriteSafetensors(path, {View("conv.weight", "F32", {2, 3, 3, 3}, many),
                                      View("conv.bias", "F32", {2}, two),
                                      View("linear.weight", "F32", {2, 3, 1, 1}, six),
                                      View("linear.bias", "F32", {3}, three)})
                  .ok());
  const std::string message(LoadWeights(path, {&program}, Device::Cpu()).status().message());
  EXPECT_NE(message.find("2 wrong: conv.weight is F32 [2, 3, 3, 3], expected [2, 3, 1, 1], "
                         "linear.weight is F32 [2, 3, 1, 1], expected [3, 2]"),
            std::string::npos)
      << message;
}

// A large component is written in shards, and read parameter by parameter.
TEST(WeightsTest, ShardsAreReadOneParameterAtATime) {
  const nn::Program program = Small();
  NamedTensors tensors;
  tensors["a.to_q.weight"] = Tensor::FromHost<float>(Device::Cpu(), {2, 3}, {1, 2, 3, 4, 5, 6});
  tensors["a.to_q.bias"] = Tensor::FromHost<float>(Device::Cpu(), {2}, {7, 8});
  std::vector<nn::ParameterInfo> parameters;
  for (int i = 0; i < program.num_parameters(); ++i) {
    parameters.push_back(program.parameter(nn::ParameterId(i)));
  }
  const std::string folder = TestPath("sharded");
  ASSERT_TRUE(MakeFolder(folder).ok());
  ASSERT_TRUE(SaveWeightsFrom(*nn::SourceOf(tensors), parameters, folder, kDiffusersWeights,
                              StoredFormat::kBf16, /*max_shard_bytes=*/12)
                  .ok());
  const std::string index = folder + "/diffusion_pytorch_model.safetensors.index.json";
  EXPECT_EQ(*ReadFile(index), R"({
  "metadata": {
    "total_size": 16
  },
  "weight_map": {
    "a.to_q.bias": "diffusion_pytorch_model-00001-of-00002.safetensors",
    "a.to_q.weight": "diffusion_pytorch_model-00002-of-00002.safetensors"
  }
}
)");
  const auto reader = WeightReader::Open(folder, {&program});
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->bytes_read(), 0);
  for (const nn::ParameterInfo& parameter : parameters) {
    const int64_t before = (*reader)->bytes_read();
    const auto tensor = (*reader)->Read(parameter);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(Values(*tensor), Values(tensors[parameter.name]));
    EXPECT_EQ((*reader)->bytes_read() - before, 2 * tensor->num_elements());
  }
  // Below the limit there is one file, with the bytes that SaveWeights writes.
  const std::string whole = TestPath("whole"), expected = TestPath("expected.safetensors");
  ASSERT_TRUE(MakeFolder(whole).ok());
  ASSERT_TRUE(SaveWeightsFrom(*nn::SourceOf(tensors), parameters, whole, kDiffusersWeights).ok());
  ASSERT_TRUE(SaveWeights(expected, tensors).ok());
  EXPECT_EQ(*ReadFile(whole + "/" + kDiffusersWeights), *ReadFile(expected));
  // What does not fit is found before anything is read.
  const nn::Program other = Small("b");
  EXPECT_NE(WeightReader::Open(folder, {&other})
                .status()
                .message()
                .find(index + ": these are not the weights of this configuration\n  "
                              "2 missing: b.bias, b.weight\n"),
            std::string::npos);
}

// Compares with the definition of the format for all 65,536 halves.
TEST(HalfToFloatTest, EveryHalf) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    const int exponent = (bits >> 10) & 31;
    const double fraction = (bits & 1023) / 1024.0;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31) {
      ASSERT_TRUE(fraction != 0 ? std::isnan(value) : value == sign * INFINITY);
      continue;
    }
    const double expected =
        exponent == 0 ? fraction * std::pow(2, -14) : (1 + fraction) * std::pow(2, exponent - 15);
    ASSERT_EQ(value, sign * expected);
    ASSERT_EQ(std::signbit(value), sign < 0);
  }
}

// A half converts to fp32 and back unchanged. Numbers between two halves go to the nearer one, or
// to the even one in the middle.
TEST(FloatToHalfTest, EveryHalfAndValuesBetween) {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    ASSERT_EQ(FloatToHalf(value), bits);
    ASSERT_EQ(FloatToHalf(-value), bits | 0x8000);
    // The largest half is followed by 2^16, as if exponents continued.
    const float above = bits == 0x7bff ? 65536.0f : HalfToFloat(static_cast<uint16_t>(bits + 1));
    const float middle = (value + above) / 2;
    ASSERT_EQ(FloatToHalf(middle), bits + (bits & 1));
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 1e9f)), bits + 1);
  }
  EXPECT_EQ(FloatToHalf(INFINITY), 0x7c00);
  EXPECT_EQ(FloatToHalf(-3e38f), 0xfc00);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(NAN))));
  // Infinities and NaNs, with every payload.
  for (int bits = 0x7c00; bits < 0x8000; ++bits) {
    ASSERT_EQ(FloatToHalf(HalfToFloat(static_cast<uint16_t>(bits))), bits);
  }
}

TEST(SaveWeightsTest, ScalarsStayExact) {
  NamedTensors tensors;
  tensors["alpha"] = Tensor::FromHost<float>(Device::Cpu(), Shape(), {1.1f});
  const std::string path = TestPath("scalar.safetensors");
  ASSERT_TRUE(SaveWeights(path, tensors, StoredFormat::kFp16).ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Find("alpha")->dtype, "F32");
  EXPECT_EQ(ToFp32(*file->Find("alpha"), Device::Cpu())->data<float>()[0], 1.1f);
}

TEST(SaveWeightsTest, HalfIsReadBackAsRounded) {
  const auto device = Device::Cpu();
  const std::vector<float> numbers = {1.0f, -0.1f, 1e-6f, 1000.0f};
  NamedTensors tensors;
  tensors["x"] = Tensor::FromHost<float>(device, {2, 2}, absl::MakeConstSpan(numbers));
  const std::string path = testing::TempDir() + "/half.safetensors";
  ASSERT_TRUE(SaveWeights(path, tensors, StoredFormat::kFp16).ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_NE(file->Find("x"), nullptr);
  EXPECT_EQ(file->Find("x")->dtype, "F16");
  ASSERT_EQ(file->Find("x")->bytes.size(), 8u);
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, file->Find("x")->bytes.data() + 2 * i, 2);
    EXPECT_EQ(bits, FloatToHalf(numbers[i]));
    EXPECT_NEAR(HalfToFloat(bits), numbers[i], std::fabs(numbers[i]) / 2048 + 3e-8);
  }
}

}  // namespace
}  // namespace dpipe::models
