// Where a component's parameters are in a single-file checkpoint of the original implementations
// (CompVis, Stability AI, Black Forest Labs, OpenCLIP). One description serves both directions.
#ifndef DPIPE_MODELS_SINGLE_FILE_ORIGINAL_LAYOUT_H_
#define DPIPE_MODELS_SINGLE_FILE_ORIGINAL_LAYOUT_H_

#include <functional>
#include <string>
#include <vector>

#include "core/nn/program.h"
#include "core/tensor/tensor.h"
#include "models/mmdit/original_names.h"
#include "models/unet/unet_config.h"

namespace dpipe::models {

// How a file stores a parameter, or its rows of a larger tensor.
enum class Rearrangement {
  kNone,
  kSwappedHalves,  // the second half of the rows first
  kTransposed,     // a matrix [out, in] as [in, out]
  kConvolution,    // a matrix [out, in] as the weight [out, in, 1, 1] of a 1 x 1 convolution
  kIdentity,       // not at all: it is the identity matrix
};

struct OriginalPlace {
  std::string tensor;  // name in the file, without the component's prefix
  // Number of this parameter among those whose rows the tensor holds, one after another.
  int part = 0;
  Rearrangement rearrangement = Rearrangement::kNone;
};

// Returns the place of a parameter, given its name in diffusers or transformers.
using OriginalLayout = std::function<OriginalPlace(const std::string& parameter)>;

// Every parameter has its own tensor with its own name.
OriginalLayout SameNames();
// Stable Diffusion's U-Net and VAE (CompVis). A VAE's levels count from the highest resolution.
OriginalLayout UNetLayout(UNetConfig config);
OriginalLayout VaeLayout(int num_levels);
// OpenCLIP's text encoder, which joins queries, keys and values, and transposes the projection.
OriginalLayout OpenClipLayout();
OriginalLayout TransformerLayout(const OriginalNames& names);
// Like `layout`, but `parameter` is not stored, because the original lacks it: it is an identity.
OriginalLayout WithIdentity(OriginalLayout layout, std::string parameter);

// The tensor of a file that holds some parameters.
struct OriginalTensor {
  struct Part {
    nn::ParameterInfo parameter;
    Rearrangement rearrangement = Rearrangement::kNone;
    int64_t first_row = 0;
  };
  std::string name;  // without the component's prefix
  Shape shape;
  std::vector<Part> parts;  // in order of their rows
};

// Returns the tensors of these parameters, by name in byte order. Those that are not stored are the
// parts of a tensor with an empty name.
std::vector<OriginalTensor> OriginalTensors(const OriginalLayout& layout,
                                            const std::vector<nn::ParameterInfo>& parameters);

// Returns the shape in which a parameter's rows are stored.
Shape StoredShape(const Shape& shape, Rearrangement rearrangement);

// Return a parameter's value, fp32, from its stored form and vice versa. They may share storage.
Tensor FromStored(const Tensor& stored, const Shape& shape, Rearrangement rearrangement);
Tensor ToStored(const Tensor& parameter, Rearrangement rearrangement);

// Returns the identity matrix, fp32 [size, size].
Tensor IdentityMatrix(int64_t size);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_SINGLE_FILE_ORIGINAL_LAYOUT_H_
