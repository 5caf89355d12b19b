// A model folder in diffusers layout: model_index.json, and a subfolder per component with its
// configuration and weights. Knows nothing of what the components compute.
#ifndef DPIPE_MODELS_FOLDER_PIPELINE_FOLDER_H_
#define DPIPE_MODELS_FOLDER_PIPELINE_FOLDER_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "models/folder/model_index.h"

namespace dpipe::models {

// Copies the component in the folder `from` into the folder `to`, which is created, for use by
// another model.
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

// The components of a folder that are copied into another.
struct CopiedComponents {
  std::set<std::string> read;             // copied even if the index does not name them
  std::set<std::string> without_weights;  // the caller writes their weights
  std::set<std::string> left_out;         // the caller writes them whole
};

// Immutable. Copies share nothing with the folder but its path.
class PipelineFolder {
 public:
  // Reads the index. Errors are those of ReadModelIndex.
  static absl::StatusOr<PipelineFolder> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const ModelIndex& index() const { return index_; }
  // Returns InvalidArgument with `classes` if the index names another class.
  absl::Status CheckClass(const std::vector<std::string>& classes) const;
  // Returns InvalidArgument if the index names one of `components`. `supported` completes "only ...
  // is supported".
  absl::Status CheckLacks(const std::vector<std::string>& components,
                          const std::string& supported) const;

  // Returns the path of a component's subfolder, or of its config.json.
  std::string PathOf(const std::string& component) const { return path_ + "/" + component; }
  std::string ConfigOf(const std::string& component) const {
    return PathOf(component) + "/config.json";
  }
  // True if a component has weights, readable or not.
  bool HasWeights(const std::string& component) const;

  // Writes `folder`: the index, and every component that it names or `copied.read` lists, including
  // those that are not used here, such as a safety checker, with the weights that were read
  // (CopyComponent). If a component's subfolder is missing here, it is missing there too, and the
  // index says so. Returns InvalidArgument if both are one folder.
  absl::Status CopyTo(const std::string& folder, const CopiedComponents& copied) const;

 private:
  PipelineFolder(std::string path, ModelIndex index)
      : path_(std::move(path)), index_(std::move(index)) {}

  std::string path_;
  ModelIndex index_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FOLDER_PIPELINE_FOLDER_H_
