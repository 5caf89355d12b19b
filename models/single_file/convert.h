// Converts models between single files in the original layout and folders in diffusers layout.
#ifndef DPIPE_MODELS_SINGLE_FILE_CONVERT_H_
#define DPIPE_MODELS_SINGLE_FILE_CONVERT_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/weights/weights.h"

namespace dpipe::models {

// Sentences for the user: what was read from where, and what needs attention.
using ConversionNotes = std::vector<std::string>;

// A built-in model whose components the file's tensors fit.
struct FittingConfig {
  std::string name;                 // of the built-in model
  std::vector<std::string> others;  // further built-in models that the file fits
};

// Returns the first built-in model (find_folders.h) of which the file has the denoiser and fits all
// components that it has. Returns InvalidArgument, with the differences from the closest one, if
// there is none.
absl::StatusOr<FittingConfig> FindFittingConfig(const std::string& file);

// Writes the weights of a single file as a new folder `out`, which appears complete or not at all.
// Configurations, tokenizers and the scheduler, and components that the file lacks, are copied from
// the folder `config`. Weights have the narrowest format that holds them exactly, or `format`.
//
// Returns FailedPrecondition if `out` exists. Returns InvalidArgument, with the names, if the file
// does not fit the configuration, or if a component is neither in the file nor in the folder.
absl::StatusOr<ConversionNotes> ConvertFileToFolder(const std::string& file,
                                                    const std::string& config,
                                                    const std::string& out,
                                                    std::optional<StoredFormat> format);

// Writes the weights of a folder as a new single file `out`, which appears complete or not at all:
// all components, or only the denoiser, as Black Forest Labs and Stability AI publish transformers.
// Adapters in the folder are not part of it.
//
// Returns FailedPrecondition if `out` exists. Returns InvalidArgument if a component has no
// weights, or if the original layout cannot hold the model.
absl::StatusOr<ConversionNotes> ConvertFolderToFile(const std::string& folder,
                                                    const std::string& out,
                                                    std::optional<StoredFormat> format,
                                                    bool denoiser_only);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_SINGLE_FILE_CONVERT_H_
