// The safetensors files that hold a component's weights, by the naming rules of diffusers and
// transformers.
//
// In a component's folder are looked for, in this order, for the stems "diffusion_pytorch_model"
// (U-Net, VAE) and "model" (text encoder) and the variants "", "fp16", "bf16":
//   <stem>[.<variant>].safetensors
//   <stem>.safetensors.index[.<variant>].json, which says which shard has which tensor:
//     {"metadata": {...}, "weight_map": {"conv_in.weight": "<stem>-00001-of-00002.safetensors"}}
// so that full precision comes first. Files of other formats (PyTorch's .bin and .ckpt, Flax's,
// TensorFlow's, ONNX's) are not read.
#ifndef DPIPE_MODELS_WEIGHTS_WEIGHT_FILES_H_
#define DPIPE_MODELS_WEIGHTS_WEIGHT_FILES_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/safetensors.h"

namespace dpipe::models {

// File names in a component's folder: diffusers' (U-Net, VAE) and transformers' (text encoder).
inline constexpr char kDiffusersWeights[] = "diffusion_pytorch_model.safetensors";
inline constexpr char kTransformersWeights[] = "model.safetensors";

struct WeightFiles {
  std::string name;  // the file or the index, for messages
  std::vector<SafetensorsFile> files;
  // What torch.compile ("_orig_mod.") and DataParallel ("module.") put before every name in a state
  // dict; empty if a name is without it. Readers leave it away.
  std::string wrapper;
};

// True if a file of that name holds weights, or says which files do: whatever OpenWeights, PyTorch,
// or another framework that checkpoints are published for would look for.
bool IsWeightFile(const std::string& name);

// Whether a component's folder has weights, even ones that OpenWeights would refuse.
bool HasWeights(const std::string& folder);

// `path` is a file, an index, or a component's folder. An index may come from anyone: every shard
// is a plain file name within the folder, every tensor is listed once and lies in the shard that it
// is listed for, and the shards hold no other tensors, else InvalidArgument names the index and
// what is wrong. NotFound if the folder has no weights; InvalidArgument, which names one and the
// way out, if it has only such as are not read. Errors of the format are SafetensorsFile's.
absl::StatusOr<WeightFiles> OpenWeights(const std::string& path);

// For each folder or file of `paths` whose names have a wrapper before them, a sentence that says
// so. Those that cannot be opened have none.
std::vector<std::string> WrapperNotes(const std::vector<std::string>& paths);

// The plain names of the files that OpenWeights reads in a component's folder: the file, or the
// index and then its shards. Errors are OpenWeights', as far as they do not need the files opened.
absl::StatusOr<std::vector<std::string>> WeightFileNames(const std::string& folder);

// What a file or an index is called without a variant, which is what is looked for first:
// "model.fp16.safetensors" -> "model.safetensors".
std::string WithoutVariant(const std::string& name);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_WEIGHTS_WEIGHT_FILES_H_
