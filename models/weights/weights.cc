#include "models/weights/weights.h"

#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/tensor/safetensors.h"

namespace dpipe::models {
namespace {

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

absl::StatusOr<std::string> FindFile(const std::string& path) {
  if (!IsFolder(path)) return path;
  for (const char* name : {kDiffusersWeights, kTransformersWeights}) {
    const std::string file = absl::StrCat(path, "/", name);
    if (Exists(file)) return file;
  }
  return absl::NotFoundError(absl::StrCat(path, ": neither ", kDiffusersWeights, " nor ",
                                          kTransformersWeights, " is there"));
}

using Expected = std::map<std::string, const nn::ParameterInfo*>;

// The parameter that a tensor of the file is: its own name, or what older files call it.
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
  return dtype == "F32" || dtype == "F16" || dtype == "BF16";
}

Tensor ToFp32(const SafetensorsView& view, const std::shared_ptr<Device>& device) {
  Tensor t = Tensor::Empty(device, Shape(view.shape), DType::kF32);
  float* to = t.data<float>();
  if (view.dtype == "F32") {
    std::memcpy(to, view.bytes.data(), view.bytes.size());
  } else if (view.dtype == "F16") {
    ConvertTo<uint16_t>(view, to, HalfToFloat);
  } else {
    ConvertTo<Bf16>(view, to, [](Bf16 x) { return static_cast<float>(x); });
  }
  return t;
}

// What does not fit between a file and the programs.
struct Mismatches {
  std::vector<std::string> missing, surplus, wrong;

  absl::Status ToStatus(const std::string& path) const {
    std::vector<std::string> parts;
    if (!missing.empty()) parts.push_back(Part("missing", missing));
    if (!surplus.empty()) parts.push_back(Part("surplus", surplus));
    if (!wrong.empty()) parts.push_back(Part("wrong", wrong));
    if (parts.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", absl::StrJoin(parts, "; ")));
  }

 private:
  static std::string Part(const char* what, const std::vector<std::string>& items) {
    return absl::StrCat(items.size(), " ", what, ": ", absl::StrJoin(items, ", "));
  }
};

// Why a tensor cannot be the parameter, or nothing.
std::string Mismatch(const SafetensorsView& view, const nn::ParameterInfo& parameter) {
  if (Shape(view.shape) == parameter.shape && IsReadable(view.dtype)) return "";
  return absl::StrCat(view.name, " is ", view.dtype, " ", Shape(view.shape).ToString(),
                      ", expected F32, F16 or BF16 ", parameter.shape.ToString());
}

Expected ExpectedOf(const std::vector<const nn::Program*>& programs) {
  Expected expected;
  for (const nn::Program* program : programs) {
    for (int i = 0; i < program->num_parameters(); ++i) {
      const nn::ParameterInfo& info = program->parameter(nn::ParameterId(i));
      expected[info.name] = &info;
    }
  }
  return expected;
}

// The file's tensor for each parameter, or all that does not fit.
absl::StatusOr<std::map<std::string, const SafetensorsView*>> Match(
    const SafetensorsFile& file, const Expected& expected, const LoadWeightsOptions& options) {
  std::map<std::string, const SafetensorsView*> found;
  Mismatches mismatches;
  for (const SafetensorsView& view : file.tensors()) {
    const std::string name = ParameterName(view.name, expected);
    const auto it = expected.find(name);
    if (it == expected.end()) {
      if (!IsIgnored(view.name, options)) mismatches.surplus.push_back(view.name);
    } else if (!found.emplace(name, &view).second) {
      mismatches.surplus.push_back(absl::StrCat(view.name, " (", name, " again)"));
    } else {
      const std::string mismatch = Mismatch(view, *it->second);
      if (!mismatch.empty()) mismatches.wrong.push_back(mismatch);
    }
  }
  for (const auto& [name, info] : expected) {
    if (found.count(name) == 0) mismatches.missing.push_back(name);
  }
  DPIPE_RETURN_IF_ERROR(mismatches.ToStatus(file.name()));
  return found;
}

}  // namespace

float HalfToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  float magnitude;
  if (exponent == 0x1f) {
    magnitude = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

bool HasWeights(const std::string& folder) { return IsFolder(folder) && FindFile(folder).ok(); }

absl::StatusOr<NamedTensors> LoadWeights(const std::string& path,
                                         const std::vector<const nn::Program*>& programs,
                                         const std::shared_ptr<Device>& device,
                                         const LoadWeightsOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const std::string file_path, FindFile(path));
  DPIPE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(file_path));
  DPIPE_ASSIGN_OR_RETURN(const auto found, Match(file, ExpectedOf(programs), options));
  NamedTensors tensors;
  for (const auto& [name, view] : found) tensors[name] = ToFp32(*view, device);
  return tensors;
}

uint16_t FloatToHalf(float value) {
  uint32_t u;
  std::memcpy(&u, &value, sizeof(u));
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return sign | 0x7e00u;   // a NaN
  if (u >= 0x47800000u) return sign | 0x7c00u;  // 2^16 and more
  if (u < 0x38800000u) {                        // below 2^-14: a multiple of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(std::fabs(value), 24)));
  }
  // 13 bits fewer of fraction, and the exponent's bias from 127 to 15: 112 << 23 is 0x38000000.
  return sign | static_cast<uint16_t>((u + 0xfffu + ((u >> 13) & 1u) - 0x38000000u) >> 13);
}

absl::Status SaveWeights(const std::string& path, const NamedTensors& tensors,
                         StoredFormat format) {
  std::vector<SafetensorsView> views;
  std::vector<std::vector<uint16_t>> halves(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto dims = tensor.shape().dims();
    absl::string_view bytes(reinterpret_cast<const char*>(tensor.data<float>()),
                            tensor.size_bytes());
    if (format == StoredFormat::kFp16) {
      std::vector<uint16_t>& half = halves[views.size()];
      for (float x : tensor.span<float>()) half.push_back(FloatToHalf(x));
      bytes = {reinterpret_cast<const char*>(half.data()), half.size() * sizeof(uint16_t)};
    }
    views.push_back({name, format == StoredFormat::kFp16 ? "F16" : "F32",
                     std::vector<int64_t>(dims.begin(), dims.end()), bytes});
  }
  return WriteSafetensors(path, views);
}

}  // namespace dpipe::models
