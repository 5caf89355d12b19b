#include "models/weights/weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"
#include "core/tensor/safetensors.h"

namespace dpipe::models {
namespace {

using Expected = std::map<std::string, const nn::ParameterInfo*>;

// Returns the parameter of a tensor of the file, by its own name or an older one.
std::string ParameterName(const std::string& name, const Expected& expected) {
  const std::string candidates[] = {name, "text_model." + name,
                                    absl::StrReplaceAll(name, {{".query.", ".to_q."},
                                                               {".key.", ".to_k."},
                                                               {".value.", ".to_v."},
                                                               {".proj_attn.", ".to_out.0."}})};
  for (const std::string& candidate : candidates) {
    if (expected.count(candidate) != 0) return candidate;
  }
  return name;
}

bool IsIgnored(const std::string& name, const LoadWeightsOptions& options) {
  if (absl::EndsWith(name, "embeddings.position_ids")) return true;  // 0, 1, 2, ...
  for (const std::string& prefix : options.ignored_prefixes) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

template <typename Stored, typename Convert>
void ConvertTo(const SafetensorsView& view, float* to, const Convert& convert) {
  const int64_t count = static_cast<int64_t>(view.bytes.size() / sizeof(Stored));
  for (int64_t i = 0; i < count; ++i) {
    Stored stored;  // the file's bytes need not be aligned
    std::memcpy(&stored, view.bytes.data() + i * sizeof(Stored), sizeof(Stored));
    to[i] = convert(stored);
  }
}

bool IsReadable(const std::string& dtype) {
  return dtype == "F32" || dtype == "F16" || dtype == "BF16" || dtype == "F8_E4M3";
}

// An 8-bit number: 4 bits of exponent with bias 7, 3 of fraction, no infinities.
struct Fp8 {
  uint8_t bits;
};

float ToFloat(Fp8 x) {
  const int exponent = x.bits >> 3 & 0xf, fraction = x.bits & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -9)
                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (x.bits & 0x80) != 0 ? -magnitude : magnitude;
}

// Copies the tensor's values; `to` must have room for as many elements.
void CopyTo(const SafetensorsView& view, float* to) {
  if (view.dtype == "F32") {
    std::memcpy(to, view.bytes.data(), view.bytes.size());
  } else if (view.dtype == "F16") {
    ConvertTo<uint16_t>(view, to, HalfToFloat);
  } else if (view.dtype == "F8_E4M3") {
    static const std::array<float, 256>* const table = [] {
      auto* all = new std::array<float, 256>;
      for (int i = 0; i < 256; ++i) (*all)[i] = ToFloat({static_cast<uint8_t>(i)});
      return all;
    }();
    ConvertTo<uint8_t>(view, to, [](uint8_t bits) { return (*table)[bits]; });
  } else {
    ConvertTo<Bf16>(view, to, [](Bf16 x) { return static_cast<float>(x); });
  }
}

// Beginnings of names in the layout of the original implementations (CompVis, Stability AI).
constexpr const char* kOriginalLayout[] = {
    "model.diffusion_model.", "first_stage_model.", "cond_stage_model.",      "conditioner.",
    "control_model.",         "input_blocks.",      "encoder.down.",          "decoder.up.",
    "middle_block.",          "output_blocks.",     "transformer.resblocks.", "model_ema."};

bool IsOriginalName(const std::string& name) {
  return std::any_of(std::begin(kOriginalLayout), std::end(kOriginalLayout),
                     [&name](const char* start) { return absl::StartsWith(name, start); });
}

// Differences between a file and the programs.
struct Mismatches {
  std::vector<std::string> missing, surplus, wrong;

  absl::Status ToStatus(const std::string& path) const {
    std::vector<std::string> lines;
    const auto original = std::find_if(surplus.begin(), surplus.end(), IsOriginalName);
    if (original != surplus.end() && !missing.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the names have the original layout (", ShowText(*original),
                       "), not diffusers'; convert the whole model's file to a folder: bazel run "
                       "//tools:convert -- --model=FILE --out=FOLDER"));
    }
    if (!missing.empty()) lines.push_back(Line("missing", missing));
    if (!surplus.empty()) lines.push_back(Line("surplus", surplus));
    if (!wrong.empty()) lines.push_back(Line("wrong", wrong));
    if (lines.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": these are not the weights of this configuration\n  ",
                     absl::StrJoin(lines, "\n  ")));
  }

 private:
  static std::string Line(const char* what, const std::vector<std::string>& items) {
    return absl::StrCat(items.size(), " ", what, ": ", ShowNames(items));
  }
};

// Drops the trailing two ones of a 1 x 1 convolution's weight.
Shape AsMatrix(const Shape& shape) {
  const bool is_convolution = shape.rank() == 4 && shape[2] == 1 && shape[3] == 1;
  return is_convolution ? Shape({shape[0], shape[1]}) : shape;
}

// Returns the reason why a tensor cannot be the parameter, or "".
std::string Mismatch(const SafetensorsView& view, const nn::ParameterInfo& parameter) {
  const bool has_shape = AsMatrix(Shape(view.shape)) == AsMatrix(parameter.shape);
  if (has_shape && IsReadable(view.dtype)) return "";
  return absl::StrCat(parameter.name, " is ", view.dtype, " ", Shape(view.shape).ToString(),
                      ", expected ", parameter.shape.ToString(),
                      IsReadable(view.dtype) ? "" : " of F32, F16, BF16 or F8_E4M3");
}

Expected ExpectedOf(const std::vector<nn::ParameterInfo>& parameters) {
  Expected expected;
  for (const nn::ParameterInfo& parameter : parameters) expected[parameter.name] = &parameter;
  return expected;
}

// Returns the files' tensor of each parameter, or an error with all mismatches.
absl::StatusOr<std::map<std::string, const SafetensorsView*>> Match(
    const WeightFiles& weights, const Expected& expected, const LoadWeightsOptions& options) {
  std::map<std::string, const SafetensorsView*> found;
  Mismatches mismatches;
  for (const SafetensorsFile& file : weights.files) {
    for (const SafetensorsView& view : file.tensors()) {
      const std::string own_name = view.name.substr(weights.wrapper.size());
      const std::string name = ParameterName(own_name, expected);
      const auto it = expected.find(name);
      if (it == expected.end()) {
        if (!IsIgnored(own_name, options)) mismatches.surplus.push_back(own_name);
      } else if (!found.emplace(name, &view).second) {
        mismatches.surplus.push_back(absl::StrCat(view.name, " (", name, " again)"));
      } else {
        const std::string mismatch = Mismatch(view, *it->second);
        if (!mismatch.empty()) mismatches.wrong.push_back(mismatch);
      }
    }
  }
  for (const auto& [name, info] : expected) {
    if (found.count(name) == 0) mismatches.missing.push_back(name);
  }
  DPIPE_RETURN_IF_ERROR(mismatches.ToStatus(weights.name));
  return found;
}

// Returns the 16-bit numbers of this dtype that are stored for an fp32 tensor.
std::vector<uint16_t> Rounded(const Tensor& tensor, const std::string& dtype) {
  const bool is_half = dtype == "F16";
  std::vector<uint16_t> numbers;
  numbers.reserve(tensor.num_elements());
  for (float x : tensor.span<float>()) {
    numbers.push_back(is_half ? FloatToHalf(x) : Bf16(x).bits);
  }
  return numbers;
}

const char* FormatDType(StoredFormat format) {
  switch (format) {
    case StoredFormat::kFp32:
      return "F32";
    case StoredFormat::kFp16:
      return "F16";
    case StoredFormat::kBf16:
      return "BF16";
  }
  return "";
}

}  // namespace

bool IsReadableDType(const std::string& dtype) { return IsReadable(dtype); }

void ReleasePages(const SafetensorsView& view) {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(view.bytes.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + view.bytes.size()) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  uint32_t u;
  if (exponent == 0) {  // a multiple of 2^-24, exact in fp32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    std::memcpy(&u, &magnitude, sizeof(u));
  } else {
    // Adds 13 bits of fraction and changes the exponent's bias from 15 to 127.
    u = (exponent == 0x1f ? 0xffu : exponent + 112) << 23 | fraction << 13;
  }
  u |= sign;
  float value;
  std::memcpy(&value, &u, sizeof(value));
  return value;
}

absl::Status CheckFinite(const std::string& file, const std::string& tensor,
                         absl::Span<const float> values) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      file, ": ", ShowText(tensor), " holds ", *bad, " (element ", bad - values.begin(),
      "): these weights are damaged or come from a diverged training; use an earlier "
      "checkpoint or another model"));
}

absl::StatusOr<Tensor> ToFp32(const SafetensorsView& view, const std::shared_ptr<Device>& device) {
  if (!IsReadable(view.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(ShowText(view.name), " is ", view.dtype,
                                                   ", expected F32, F16, BF16 or F8_E4M3"));
  }
  Tensor tensor = Tensor::Empty(device, Shape(view.shape), DType::kF32);
  CopyTo(view, tensor.data<float>());
  return tensor;
}

absl::StatusOr<std::shared_ptr<const WeightReader>> WeightReader::Open(
    const std::string& path, const std::vector<const nn::Program*>& programs,
    const LoadWeightsOptions& options) {
  std::vector<nn::ParameterInfo> parameters;
  for (const nn::Program* program : programs) {
    for (int i = 0; i < program->num_parameters(); ++i) {
      parameters.push_back(program->parameter(nn::ParameterId(i)));
    }
  }
  return OpenParameters(path, parameters, options);
}

absl::StatusOr<std::shared_ptr<const WeightReader>> WeightReader::OpenParameters(
    const std::string& path, const std::vector<nn::ParameterInfo>& parameters,
    const LoadWeightsOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(WeightFiles files, OpenWeights(path));
  auto reader = std::shared_ptr<WeightReader>(new WeightReader(std::move(files)));
  DPIPE_ASSIGN_OR_RETURN(reader->found_, Match(reader->files_, ExpectedOf(parameters), options));
  return reader;
}

absl::StatusOr<Tensor> WeightReader::Read(const nn::ParameterInfo& parameter) const {
  const auto found = found_.find(parameter.name);
  if (found == found_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files_.name, ": ", ShowText(parameter.name), " is missing"));
  }
  const SafetensorsView& view = *found->second;
  const std::string mismatch = Mismatch(view, parameter);
  if (!mismatch.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(files_.name, ": ", mismatch));
  }
  const Tensor tensor = Tensor::Empty(Device::Cpu(), parameter.shape, DType::kF32);
  CopyTo(view, tensor.data<float>());
  ReleasePages(view);
  bytes_read_ += static_cast<int64_t>(view.bytes.size());
  DPIPE_RETURN_IF_ERROR(CheckFinite(files_.name, view.name, tensor.span<float>()));
  return tensor;
}

absl::Status CheckStoredTensor(const std::string& path, const std::string& name,
                               const Tensor& expected, float tolerance) {
  DPIPE_ASSIGN_OR_RETURN(const WeightFiles files, OpenWeights(path));
  for (const SafetensorsFile& file : files.files) {
    const SafetensorsView* view = file.Find(files.wrapper + name);
    if (view == nullptr) continue;
    DPIPE_ASSIGN_OR_RETURN(const Tensor stored, ToFp32(*view, expected.device()));
    if (stored.shape() != expected.shape()) {
      return absl::InvalidArgumentError(absl::StrCat(file.name(), ": ", name, " is ",
                                                     stored.shape().ToString(), ", expected ",
                                                     expected.shape().ToString()));
    }
    for (int64_t i = 0; i < stored.num_elements(); ++i) {
      const float found = stored.data<float>()[i], computed = expected.data<float>()[i];
      if (std::fabs(found - computed) <= tolerance) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          file.name(), ": ", name, " holds ", found, " (element ", i, "), but this model computes ",
          computed, "; other values of it are not ", "supported"));
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> LoadWeights(const std::string& path,
                                         const std::vector<const nn::Program*>& programs,
                                         const std::shared_ptr<Device>& device,
                                         const LoadWeightsOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const auto reader, WeightReader::Open(path, programs, options));
  DPIPE_ASSIGN_OR_RETURN(NamedTensors tensors, nn::ReadAll(*reader, programs));
  for (auto& [name, tensor] : tensors) tensor = tensor.CopyTo(device);
  return tensors;
}

absl::StatusOr<StoredFormat> ParseStoredFormat(const std::string& name) {
  if (name == "fp32") return StoredFormat::kFp32;
  if (name == "fp16") return StoredFormat::kFp16;
  if (name == "bf16") return StoredFormat::kBf16;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown format of weights '", name, "'; use fp32, fp16 or bf16"));
}

uint16_t FloatToHalf(float value) {
  uint32_t u;
  std::memcpy(&u, &value, sizeof(u));
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) {  // a NaN; it becomes quiet if its payload does not fit
    const uint16_t payload = static_cast<uint16_t>((u >> 13) & 0x3ffu);
    return static_cast<uint16_t>(sign | 0x7c00u | (payload != 0 ? payload : 0x200u));
  }
  if (u >= 0x47800000u) return sign | 0x7c00u;  // 2^16 and more
  if (u < 0x38800000u) {                        // below 2^-14: a multiple of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(std::fabs(value), 24)));
  }
  // Drops 13 bits of fraction and changes the exponent's bias from 127 to 15: 112 << 23 is
  // 0x38000000.
  return sign | static_cast<uint16_t>((u + 0xfffu + ((u >> 13) & 1u) - 0x38000000u) >> 13);
}

SafetensorsEntry EntryOf(const std::string& name, const Shape& shape, StoredFormat format) {
  const auto dims = shape.dims();
  return {name, FormatDType(dims.empty() ? StoredFormat::kFp32 : format),
          std::vector<int64_t>(dims.begin(), dims.end())};
}

absl::Status WriteWeightsInTurn(const std::string& path,
                                const std::vector<SafetensorsEntry>& entries,
                                const std::function<absl::StatusOr<Tensor>(size_t i)>& read) {
  Tensor tensor;  // the current one
  std::vector<uint16_t> rounded;
  return WriteSafetensorsInTurn(path, entries, [&](size_t i) -> absl::StatusOr<absl::string_view> {
    DPIPE_ASSIGN_OR_RETURN(tensor, read(i));
    if (entries[i].dtype == FormatDType(StoredFormat::kFp32)) {
      return absl::string_view(reinterpret_cast<const char*>(tensor.data<float>()),
                               tensor.size_bytes());
    }
    rounded = Rounded(tensor, entries[i].dtype);
    return absl::string_view(reinterpret_cast<const char*>(rounded.data()),
                             rounded.size() * sizeof(uint16_t));
  });
}

namespace {

// Returns the number of bytes of a tensor in a file.
int64_t StoredBytes(const SafetensorsEntry& entry) {
  return Shape(entry.shape).num_elements() * SafetensorsElementBytes(entry.dtype);
}

}  // namespace

absl::Status SaveWeights(const std::string& path, const NamedTensors& tensors,
                         StoredFormat format) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back(EntryOf(name, tensor.shape(), format));
  }
  return WriteWeightsInTurn(path, entries, [&](size_t i) { return tensors.at(entries[i].name); });
}

absl::Status SaveWeightsFrom(const nn::ParameterSource& source,
                             const std::vector<nn::ParameterInfo>& parameters,
                             const std::string& folder, const std::string& file,
                             StoredFormat format, int64_t max_shard_bytes) {
  std::map<std::string, const nn::ParameterInfo*> sorted;
  for (const nn::ParameterInfo& parameter : parameters) sorted[parameter.name] = &parameter;
  std::vector<std::vector<SafetensorsEntry>> shards(1);
  int64_t total = 0, bytes = 0;  // of all tensors, and of the last shard's
  for (const auto& [name, parameter] : sorted) {
    SafetensorsEntry entry = EntryOf(name, parameter->shape, format);
    const int64_t own = StoredBytes(entry);
    if (bytes + own > max_shard_bytes && !shards.back().empty()) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(std::move(entry));
    bytes += own;
    total += own;
  }
  const std::string stem = file.substr(0, file.rfind(".safetensors"));
  nlohmann::ordered_json index;
  index["metadata"]["total_size"] = total;
  for (size_t s = 0; s < shards.size(); ++s) {
    const std::string name = shards.size() == 1 ? file
                                                : absl::StrFormat("%s-%05d-of-%05d.safetensors",
                                                                  stem, s + 1, shards.size());
    DPIPE_RETURN_IF_ERROR(
        WriteWeightsInTurn(absl::StrCat(folder, "/", name), shards[s],
                           [&](size_t i) { return source.Read(*sorted.at(shards[s][i].name)); }));
    for (const SafetensorsEntry& entry : shards[s]) index["weight_map"][entry.name] = name;
  }
  if (shards.size() == 1) return absl::OkStatus();
  return WriteFileAtomically(absl::StrCat(folder, "/", file, ".index.json"),
                             JsonText(index, /*indent=*/2) + "\n");
}

NamedTensors RandomParameters(const nn::Program& program, uint64_t seed) {
  const auto parameters = nn::ParameterSet::OnDemand(program, program.all_layers(), Device::Cpu());
  parameters->AllocateMasters(program.all_layers());
  parameters->InitRandom(seed);
  return SharedMasters(*parameters);
}

NamedTensors SharedMasters(const nn::ParameterSet& parameters) {
  NamedTensors tensors;
  for (nn::ParameterId id : parameters.ids()) {
    tensors[parameters.program().parameter(id).name] = parameters.weight(id).master();
  }
  return tensors;
}

}  // namespace dpipe::models
