// Finds the safetensors files with a component's weights, by the naming rules of diffusers and
// transformers.
//
// The stems "diffusion_pytorch_model" (U-Net, VAE) and "model" (text encoder) and the variants "",
// "fp16" and "bf16" give these candidates in a component's folder, searched in this order:
//   <stem>[.<variant>].safetensors
//   <stem>.safetensors.index[.<variant>].json, which maps each tensor to its shard:
//     {"metadata": {...}, "weight_map": {"conv_in.weight": "<stem>-00001-of-00002.safetensors"}}
// Full precision comes first. Files of other formats (PyTorch's .bin and .ckpt, Flax's,
// TensorFlow's, ONNX's) are not read.
#ifndef DPIPE_MODELS_WEIGHTS_WEIGHT_FILES_H_
#define DPIPE_MODELS_WEIGHTS_WEIGHT_FILES_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/safetensors.h"

namespace dpipe::models {

// File names in a component's folder: of diffusers (U-Net, VAE) and of transformers (text encoder).
inline constexpr char kDiffusersWeights[] = "diffusion_pytorch_model.safetensors";
inline constexpr char kTransformersWeights[] = "model.safetensors";

struct WeightFiles {
  std::string name;  // the file or the index, for messages
  std::vector<SafetensorsFile> files;
  // Prefix of every name in the state dict, added by torch.compile ("_orig_mod.") or DataParallel
  // ("module."). Readers remove it. Empty if a name lacks the prefix.
  std::string wrapper;
};

// True if a file of that name holds weights, or lists the files that do. Covers OpenWeights,
// PyTorch, and other frameworks for which checkpoints are published.
bool IsWeightFile(const std::string& name);

// True if a component's folder has weights, even if OpenWeights would reject them.
bool HasWeights(const std::string& folder);

// Opens a file, an index, or the weights in a component's folder.
//
// An index may come from an untrusted source. Every shard must be a plain file name in the folder,
// every tensor must be listed once and be in its listed shard, and shards must hold no other
// tensors. Otherwise returns InvalidArgument with the index and the problem.
//
// Returns NotFound if the folder has no weights. Returns InvalidArgument, with one of its files and
// a way to convert it, if it only has weights in other formats. Errors of the format are those of
// SafetensorsFile.
absl::StatusOr<WeightFiles> OpenWeights(const std::string& path);

// Returns one sentence for each of `paths` (files or folders) whose names have a wrapper prefix.
// Ignores paths that cannot be opened.
std::vector<std::string> WrapperNotes(const std::vector<std::string>& paths);

// Returns the names of the files that OpenWeights reads in a component's folder: the file, or the
// index followed by its shards. Errors are those of OpenWeights that occur before files are opened.
absl::StatusOr<std::vector<std::string>> WeightFileNames(const std::string& folder);

// Returns the name of a file or an index without its variant, which is searched for first:
// "model.fp16.safetensors" -> "model.safetensors".
std::string WithoutVariant(const std::string& name);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_WEIGHTS_WEIGHT_FILES_H_
