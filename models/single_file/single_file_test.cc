// Compares with diffusers, by the goldens of testdata/make_goldens.py, and converts back and forth.
#include "models/single_file/single_file.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/folder/find_folders.h"
#include "models/mmdit/flux_transformer.h"
#include "models/single_file/convert.h"
#include "models/testdata/formula_weights.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

// Configurations, and changes to them: CASES of make_goldens.py is the other half.
struct Case {
  const char *name, *source, *changes;
};
const Case kCases[] = {
    {"sd1", "data/tiny_sd", R"({"unet": {"use_linear_projection": false}})"},
    {"sd2", "data/tiny_sd", R"({"text_encoder": {"hidden_act": "gelu"}})"},
    {"sdxl", "models/sdxl/testdata/pipeline", "{}"},
    {"sd3", "models/sd3/testdata/tiny",
     R"({"text_encoder": {"projection_dim": 16}, "transformer": {"pooled_projection_dim": 22}})"},
    {"flux", "models/flux/testdata/tiny", "{}"},
};

void Write(const std::string& path, const std::string& text) {
  fs::remove(path);  // a copy of a test's file is not writable
  const absl::Status status = WriteFileAtomically(path, text);
  DPIPE_CHECK(status.ok()) << status;
}

std::string Read(const std::string& path) {
  const auto bytes = ReadFile(path);
  DPIPE_CHECK(bytes.ok()) << bytes.status();
  return *bytes;
}

// Writes the case's configurations, without weights and tokenizers, and returns the folder.
std::string MakeConfig(const Case& c, const ScratchFolder& scratch) {
  const std::string folder = scratch.File(absl::StrCat(c.name, "_config"));
  fs::create_directories(folder);
  Write(folder + "/model_index.json", Read(absl::StrCat(c.source, "/model_index.json")));
  const Json changes = Json::parse(c.changes);
  for (const auto& entry : fs::directory_iterator(c.source)) {
    const std::string name = entry.path().filename().string();
    const std::string config = entry.path().string() + "/config.json";
    if (!fs::exists(config)) continue;
    Json json = Json::parse(Read(config));
    if (changes.contains(name)) json.update(changes[name]);
    fs::create_directories(absl::StrCat(folder, "/", name));
    Write(absl::StrCat(folder, "/", name, "/config.json"), json.dump());
  }
  return folder;
}

std::vector<StoredComponent> ComponentsOf(const std::string& folder) {
  const auto config = PipelineFolder::Open(folder);
  DPIPE_CHECK(config.ok()) << config.status();
  auto components = ReadStoredComponents(*config);
  DPIPE_CHECK(components.ok()) << components.status();
  return *std::move(components);
}

// A file in memory, whose tensors tests change.
struct Content {
  struct Entry {
    std::string dtype;
    Shape shape;
    std::string bytes;
  };
  std::map<std::string, Entry> tensors;

  void Add(const std::string& name, const std::string& dtype, const Shape& shape) {
    tensors[name] = {dtype, shape,
                     std::string(shape.num_elements() * SafetensorsElementBytes(dtype), '\0')};
  }
  std::string Save(const std::string& path) const {
    std::vector<SafetensorsView> views;
    for (const auto& [name, entry] : tensors) {
      const auto dims = entry.shape.dims();
      views.push_back({name, entry.dtype, {dims.begin(), dims.end()}, entry.bytes});
    }
    const absl::Status status = WriteSafetensors(path, views);
    DPIPE_CHECK(status.ok()) << status;
    return path;
  }
};

// Returns a single file whose values a formula gives.
Content FormulaFile(const std::string& config) {
  Content content;
  for (const StoredComponent& component : ComponentsOf(config)) {
    const OriginalForm& form = component.forms[0];
    for (const OriginalTensor& tensor : OriginalTensors(form.layout, component.parameters)) {
      if (tensor.name.empty()) continue;
      const std::string name = form.prefix + tensor.name;
      content.Add(name, "F32", tensor.shape);
      const FormulaBits bits(name);
      std::string& bytes = content.tensors[name].bytes;
      for (uint32_t i = 0; i < bytes.size() / sizeof(float); ++i) {
        const float value = static_cast<float>(bits.Uniform(i));
        std::memcpy(&bytes[i * sizeof(float)], &value, sizeof(value));
      }
    }
  }
  return content;
}

// digest() of make_goldens.py: of names, shapes and bits of a component's fp32 weights.
std::string Digest(const std::string& path) {
  const auto file = SafetensorsFile::Open(path);
  DPIPE_CHECK(file.ok()) << file.status();
  uint64_t total = 0;
  for (const SafetensorsView& view : file->tensors()) {
    DPIPE_CHECK(view.dtype == "F32") << view.name;
    uint64_t content = 0;
    for (uint64_t i = 0; i < view.bytes.size() / sizeof(uint32_t); ++i) {
      uint32_t bits;
      std::memcpy(&bits, view.bytes.data() + i * sizeof(bits), sizeof(bits));
      content += bits * ((2 * i + 1) * 0x9E3779B97F4A7C15u);
    }
    std::string text = view.name;
    for (int64_t d : view.shape) absl::StrAppend(&text, " ", d);
    uint64_t key = 14695981039346656037u;
    for (char c : text) key = (key ^ static_cast<unsigned char>(c)) * 1099511628211u;
    total += key * (2 * content + 1);
  }
  return absl::StrFormat("%016x", total);
}

std::string ErrorOf(const absl::StatusOr<ConversionNotes>& result) {
  EXPECT_FALSE(result.ok());
  return std::string(result.status().message());
}

TEST(SingleFileTest, ReadsWhatDiffusersReads) {
  const Json goldens = Json::parse(Read("models/single_file/testdata/goldens.json"));
  for (const Case& c : kCases) {
    const ScratchFolder scratch(ScratchFolder::Place::kMemory);
    const std::string config = MakeConfig(c, scratch), folder = scratch.File("folder");
    const std::string file = FormulaFile(config).Save(scratch.File("file.safetensors"));
    const auto notes = ConvertFileToFolder(file, config, folder, std::nullopt);
    ASSERT_TRUE(notes.ok()) << c.name << ": " << notes.status();
    const std::vector<StoredComponent> components = ComponentsOf(config);
    ASSERT_EQ(components.size(), goldens[c.name].size());
    for (const StoredComponent& component : components) {
      EXPECT_EQ(Digest(absl::StrCat(folder, "/", component.name, "/", component.file)),
                goldens[c.name][component.name])
          << c.name << " " << component.name;
    }
  }
}

TEST(SingleFileTest, FilesRoundTrip) {
  for (const Case& c : kCases) {
    const ScratchFolder scratch(ScratchFolder::Place::kMemory);
    const std::string config = MakeConfig(c, scratch), folder = scratch.File("folder");
    const Content content = FormulaFile(config);
    const std::string file = content.Save(scratch.File("file.safetensors"));
    const std::string again = scratch.File("again.safetensors");
    ASSERT_TRUE(ConvertFileToFolder(file, config, folder, std::nullopt).ok()) << c.name;
    const auto notes = ConvertFolderToFile(folder, again, std::nullopt, /*denoiser_only=*/false);
    ASSERT_TRUE(notes.ok()) << c.name << ": " << notes.status();
    const auto written = SafetensorsFile::Open(again);
    ASSERT_TRUE(written.ok()) << written.status();
    for (const auto& [name, entry] : content.tensors) {
      const SafetensorsView* view = written->Find(name);
      ASSERT_NE(view, nullptr) << name;
      EXPECT_EQ(Shape(view->shape), entry.shape) << name;
      EXPECT_TRUE(view->bytes == entry.bytes) << name;
    }
  }
}

TEST(SingleFileTest, FilesComeBackInTheirFormatByteForByte) {
  const ScratchFolder scratch(ScratchFolder::Place::kMemory);
  const std::string config = MakeConfig(kCases[3], scratch);
  const std::string file = FormulaFile(config).Save(scratch.File("file.safetensors"));
  for (const auto& [name, format] :
       {std::make_pair("fp16", StoredFormat::kFp16), std::make_pair("bf16", StoredFormat::kBf16)}) {
    const std::string folder = scratch.File(name), second = folder + ".2";
    const std::string first_file = folder + ".safetensors", second_file = second + ".safetensors";
    ASSERT_TRUE(ConvertFileToFolder(file, config, folder, format).ok());
    ASSERT_TRUE(ConvertFolderToFile(folder, first_file, std::nullopt, false).ok());
    ASSERT_TRUE(ConvertFileToFolder(first_file, config, second, std::nullopt).ok());
    ASSERT_TRUE(ConvertFolderToFile(second, second_file, std::nullopt, false).ok());
    const auto written = SafetensorsFile::Open(first_file);
    ASSERT_TRUE(written.ok()) << written.status();
    for (const SafetensorsView& view : written->tensors()) {
      EXPECT_EQ(view.dtype, format == StoredFormat::kFp16 ? "F16" : "BF16") << view.name;
    }
    EXPECT_TRUE(Read(first_file) == Read(second_file)) << name;
  }
}

// Folders of diffusers and transformers come back byte for byte, and their configuration is found.
TEST(SingleFileTest, BuiltInModelsRoundTrip) {
  for (const std::string name : {"tiny_sd", "tiny_flux"}) {
    const ScratchFolder scratch(ScratchFolder::Place::kMemory);
    const std::string source = "data/" + name, folder = scratch.File("folder");
    const std::string file = scratch.File("file.safetensors");
    const bool denoiser_only = name == "tiny_flux";  // the rest is copied
    ASSERT_TRUE(ConvertFolderToFile(source, file, std::nullopt, denoiser_only).ok());
    const auto fitting = FindFittingConfig(file);
    ASSERT_TRUE(fitting.ok()) << fitting.status();
    EXPECT_EQ(fitting->name, name);
    ASSERT_TRUE(ConvertFileToFolder(file, source, folder, std::nullopt).ok());
    for (const StoredComponent& component : ComponentsOf(source)) {
      const std::string weights = absl::StrCat("/", component.name, "/", component.file);
      EXPECT_TRUE(Read(source + weights) == Read(folder + weights)) << component.name;
    }
    EXPECT_TRUE(fs::exists(folder + "/tokenizer/vocab.json"));
    EXPECT_EQ(SafetensorsFile::Open(file)->Find("double_blocks.1.img_attn.qkv.weight") != nullptr,
              denoiser_only);
  }
}

// Tensors that public checkpoints have beside the weights.
TEST(SingleFileTest, IgnoresWhatPipelinesDoNotUse) {
  const ScratchFolder scratch(ScratchFolder::Place::kMemory);
  const auto converted = [&](const Case& c, const Content& content, const std::string& name) {
    const std::string config = MakeConfig(c, scratch), folder = scratch.File(name);
    const auto notes =
        ConvertFileToFolder(content.Save(folder + ".safetensors"), config, folder, std::nullopt);
    EXPECT_TRUE(notes.ok()) << notes.status();
    return std::make_pair(folder, notes.value_or(ConversionNotes()));
  };
  const Case& v2 = kCases[1];
  Content content = FormulaFile(MakeConfig(v2, scratch));
  const std::string plain = converted(v2, content, "plain").first;
  content.Add("model_ema.decay", "F32", Shape());
  content.Add("alphas_cumprod", "F32", Shape({1000}));
  content.Add("cond_stage_model.model.logit_scale", "F32", Shape());
  content.Add("cond_stage_model.model.text_projection", "F32", Shape({64, 64}));
  content.Add("cond_stage_model.model.transformer.resblocks.4.ln_1.weight", "F32", Shape({64}));
  const auto [folder, notes] = converted(v2, content, "full");
  for (const char* weights :
       {"/unet/diffusion_pytorch_model.safetensors", "/text_encoder/model.safetensors"}) {
    EXPECT_TRUE(Read(plain + weights) == Read(folder + weights));
  }
  EXPECT_THAT(notes, ::testing::Contains("Not read: 2 tensors of no component: alphas_cumprod, "
                                         "model_ema.decay"));
  Content of_clip = FormulaFile(MakeConfig(kCases[0], scratch));
  of_clip.Add("cond_stage_model.transformer.text_model.embeddings.position_ids", "I64",
              Shape({1, 32}));
  converted(kCases[0], of_clip, "clip");
  // Some files hold T5's table under its second name only.
  Content of_t5 = FormulaFile(MakeConfig(kCases[4], scratch));
  const std::string prefix = "text_encoders.t5xxl.transformer.";
  auto table = of_t5.tensors.extract(prefix + "shared.weight");
  table.key() = prefix + "encoder.embed_tokens.weight";
  of_t5.tensors.insert(std::move(table));
  converted(kCases[4], of_t5, "t5");
}

TEST(SingleFileTest, RefusesOtherWeights) {
  const ScratchFolder scratch(ScratchFolder::Place::kMemory);
  const std::string config = MakeConfig(kCases[3], scratch), out = scratch.File("out");
  const Content content = FormulaFile(config);
  const auto error = [&](Content changed) {
    const std::string file = changed.Save(scratch.File("file.safetensors"));
    const std::string message = ErrorOf(ConvertFileToFolder(file, config, out, std::nullopt));
    EXPECT_FALSE(fs::exists(out));
    EXPECT_FALSE(fs::exists(out + ".partial"));
    return message;
  };
  const std::string qkv = "model.diffusion_model.joint_blocks.0.x_block.attn.qkv.weight";
  Content changed = content;
  changed.tensors.erase(qkv);
  EXPECT_THAT(error(changed), HasSubstr("transformer: 1 missing: " + qkv));
  changed.Add(qkv, "F32", Shape({48, 8}));
  EXPECT_THAT(error(changed),
              HasSubstr("transformer: 1 wrong: " + qkv + " is F32 [48, 8], expected [48, 16]"));
  changed.Add(qkv, "I32", Shape({48, 16}));
  EXPECT_THAT(error(changed), HasSubstr(qkv + " is I32 [48, 16], expected [48, 16]"));
  changed = content;
  changed.Add("first_stage_model.quant_conv.bias", "F32", Shape({8}));
  EXPECT_THAT(error(changed), HasSubstr("vae: 1 surplus: first_stage_model.quant_conv.bias"));
  changed = content;
  const float nan = NAN;
  std::memcpy(&changed.tensors[qkv].bytes[8], &nan, sizeof(nan));
  EXPECT_THAT(error(changed), HasSubstr(qkv + " holds nan (element 2)"));
  changed = content;
  const auto erase = [&changed](const std::string& prefix) {
    for (auto it = changed.tensors.begin(); it != changed.tensors.end();) {
      it = it->first.rfind(prefix, 0) == 0 ? changed.tensors.erase(it) : std::next(it);
    }
  };
  erase("text_encoders.t5xxl.");
  erase("first_stage_model.");
  EXPECT_THAT(error(changed),
              HasSubstr("holds no weights of vae, text_encoder_3, nor does " + config));
  erase("model.diffusion_model.");
  EXPECT_THAT(error(changed), HasSubstr("no tensor of the transformer was found, such as "
                                        "model.diffusion_model.context_embedder.bias"));
  const auto fitting = FindFittingConfig(content.Save(scratch.File("file.safetensors")));
  EXPECT_THAT(std::string(fitting.status().message()),
              HasSubstr("fits none of the built-in configurations"));
}

TEST(SingleFileTest, RefusesWhatTheLayoutCannotHold) {
  const ScratchFolder scratch(ScratchFolder::Place::kMemory);
  const std::string config = MakeConfig(kCases[3], scratch), folder = scratch.File("folder");
  const std::string file = FormulaFile(config).Save(scratch.File("file.safetensors"));
  ASSERT_TRUE(ConvertFileToFolder(file, config, folder, std::nullopt).ok());
  const std::string out = scratch.File("out.safetensors");
  const auto error = [&out](const std::string& from) {
    const std::string message = ErrorOf(ConvertFolderToFile(from, out, std::nullopt, false));
    EXPECT_FALSE(fs::exists(out));
    return message;
  };
  EXPECT_THAT(error(config), HasSubstr(config + " has no weights of transformer"));
  EXPECT_THAT(error(*FindModelFolder("tiny_cdm")),
              HasSubstr("there is no single-file layout for a "));
  // diffusers and ComfyUI read no projection of CLIP-L.
  const std::string weights = folder + "/text_encoder/model.safetensors";
  std::string bytes = Read(weights);
  const auto opened = SafetensorsFile::FromBytes(bytes, weights);
  const SafetensorsView* projection = opened->Find("text_projection.weight");
  ASSERT_NE(projection, nullptr);
  const size_t at =
      bytes.size() - (opened->tensors().back().bytes.end() - projection->bytes.begin());
  const float two = 2;
  std::memcpy(&bytes[at], &two, sizeof(two));
  Write(weights, bytes);
  EXPECT_THAT(error(folder), HasSubstr("text_projection.weight is not the identity matrix"));
  EXPECT_THAT(ErrorOf(ConvertFolderToFile(folder, file, std::nullopt, false)),
              HasSubstr(file + " exists already"));
}

int64_t CountOf(const StoredComponent& component) {
  return static_cast<int64_t>(
      OriginalTensors(component.forms[0].layout, component.parameters).size());
}

// Numbers of tensors of the public checkpoints, and a few of their shapes.
TEST(SingleFileTest, FullSizeModelsHaveTheirTensors) {
  const struct {
    const char* model;
    std::vector<int64_t> counts;
  } cases[] = {{"stable_diffusion_v1_5", {686, 248, 196}},
               {"stable_diffusion_v2_1", {686, 248, 280}},
               {"stable_diffusion_xl", {1680, 248, 196, 389}}};
  for (const auto& c : cases) {
    std::vector<int64_t> counts;
    for (const StoredComponent& component : ComponentsOf(*FindModelFolder(c.model))) {
      counts.push_back(CountOf(component));
    }
    EXPECT_EQ(counts, c.counts) << c.model;
  }
  FluxTransformerConfig dev;
  dev.guidance_embeds = true;
  const auto program = BuildFluxTransformer(dev, {2, 2, 1}, nn::LayerKind::kFrozen);
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<nn::ParameterInfo> parameters;
  for (int i = 0; i < program->num_parameters(); ++i) {
    parameters.push_back(program->parameter(nn::ParameterId(i)));
  }
  const auto tensors = OriginalTensors(TransformerLayout(FluxOriginalNames(dev)), parameters);
  EXPECT_EQ(tensors.size(), 780);
  std::map<std::string, Shape> shapes;
  for (const OriginalTensor& tensor : tensors) shapes[tensor.name] = tensor.shape;
  EXPECT_EQ(shapes["single_blocks.37.linear1.weight"], Shape({21504, 3072}));
  EXPECT_EQ(shapes["double_blocks.18.txt_attn.qkv.bias"], Shape({9216}));
  EXPECT_EQ(shapes["single_blocks.0.norm.key_norm.scale"], Shape({128}));
}

}  // namespace
}  // namespace dpipe::models
