// A component's weights: safetensors files in diffusers' layout, in and out.
#ifndef DPIPE_MODELS_WEIGHTS_WEIGHTS_H_
#define DPIPE_MODELS_WEIGHTS_WEIGHTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "core/tensor/tensor.h"

namespace dpipe::models {

// By the parameters' names.
using NamedTensors = std::map<std::string, Tensor>;

// File names in a component's folder: diffusers' (U-Net, VAE) and transformers' (text encoder).
inline constexpr char kDiffusersWeights[] = "diffusion_pytorch_model.safetensors";
inline constexpr char kTransformersWeights[] = "model.safetensors";

// Whether a component's folder has weights that LoadWeights would read.
bool HasWeights(const std::string& folder);

struct LoadWeightsOptions {
  // Tensors of the file whose names start so are not looked at: a VAE's "decoder." where only the
  // encoder is wanted.
  std::vector<std::string> ignored_prefixes;
};

// The parameters of `programs` (one component's: a VAE has two) as fp32 tensors on `device`, ready
// for ParameterSet::Load. `path` is a file, or a folder with one of the two file names.
//
// fp32, fp16 and bf16 are read. Older names are understood: a VAE's attention query, key, value and
// proj_attn; a text encoder's without "text_model."; its integer position_ids is ignored.
// InvalidArgument lists every parameter that is missing, every tensor that is surplus, and every
// wrong shape or dtype with both values. Errors of the format are SafetensorsFile's.
absl::StatusOr<NamedTensors> LoadWeights(const std::string& path,
                                         const std::vector<const nn::Program*>& programs,
                                         const std::shared_ptr<Device>& device,
                                         const LoadWeightsOptions& options = {});

// How numbers are stored: half the bytes, where 11 bits of precision will do.
enum class StoredFormat { kFp32, kFp16 };

// Writes fp32 tensors as the reference implementation of safetensors does, so that a file of fp32
// tensors that was loaded is written back byte for byte. The file appears whole or not at all.
absl::Status SaveWeights(const std::string& path, const NamedTensors& tensors,
                         StoredFormat format = StoredFormat::kFp32);

// An IEEE half, by its bits. To nearest even; too large a number becomes an infinity.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_WEIGHTS_WEIGHTS_H_
