// Copies a component's folder for use by another model.
#ifndef DPIPE_MODELS_FOLDER_COPY_COMPONENT_H_
#define DPIPE_MODELS_FOLDER_COPY_COMPONENT_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace dpipe::models {

// Copies the component in the folder `from` into the folder `to`, which is created.
//
// - Files other than weights (configurations, vocabularies) are always copied.
// - With `with_weights`, the weights that OpenWeights reads are copied, byte for byte, and named
//   without a variant, so that every loader finds them. Weights in other formats and precisions are
//   not copied. If OpenWeights can read none, all are copied unchanged.
// - Subfolders and hidden files are not copied. Links are followed.
//
// File contents do not pass through this process's memory (CopyFileAtomically).
absl::Status CopyComponent(const std::string& from, const std::string& to, bool with_weights);

// Number and total size of the files that CopyComponent would write.
struct ComponentSize {
  int64_t num_files = 0;
  int64_t bytes = 0;
};
absl::StatusOr<ComponentSize> SizeOfCopy(const std::string& from, bool with_weights);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FOLDER_COPY_COMPONENT_H_
