// A component's folder as another one takes it over.
#ifndef DPIPE_MODELS_WEIGHTS_COPY_COMPONENT_H_
#define DPIPE_MODELS_WEIGHTS_COPY_COMPONENT_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace dpipe::models {

// Copies what loading needs of the component in the folder `from` into the folder `to`, which is
// made: its files without weights (configurations, vocabularies) and, if asked for, of the weights
// that lie there in several formats and precisions those that OpenWeights reads, byte for byte,
// under the name that they have without a variant, so that whoever loads the folder finds them.
// Where OpenWeights reads none of them, all are copied as they are. Subfolders and hidden files are
// not. Links are followed. Nothing goes through this process's memory (CopyFileAtomically).
absl::Status CopyComponent(const std::string& from, const std::string& to, bool with_weights);

// What CopyComponent would write.
struct ComponentSize {
  int64_t num_files = 0;
  int64_t bytes = 0;
};
absl::StatusOr<ComponentSize> SizeOfCopy(const std::string& from, bool with_weights);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_WEIGHTS_COPY_COMPONENT_H_
