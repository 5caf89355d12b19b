// The components that a single-file checkpoint can hold, made from a folder's configurations.
#ifndef DPIPE_MODELS_SINGLE_FILE_STORED_COMPONENT_H_
#define DPIPE_MODELS_SINGLE_FILE_STORED_COMPONENT_H_

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/folder/pipeline_folder.h"
#include "models/single_file/original_layout.h"

namespace dpipe::models {

// One way in which single files hold a component.
struct OriginalForm {
  std::string prefix;  // of its names
  OriginalLayout layout;
  // Beginnings of further names behind the prefix. Such tensors are not read: counters, layers
  // that the pipeline does not use.
  std::vector<std::string> ignored;
  // Second names behind the prefix, by first name. A tensor is written under both, and read by the
  // second if the file lacks the first.
  std::map<std::string, std::string> second_names = {};
};

struct StoredComponent {
  std::string name;  // of the component and its subfolder: "text_encoder_2"
  std::string file;  // name of its weights there: kDiffusersWeights or kTransformersWeights
  std::vector<nn::ParameterInfo> parameters;  // all tensors that the subfolder holds
  // Prefixes of further names in the subfolder's weights, which are not read.
  std::vector<std::string> ignored_prefixes;
  std::vector<OriginalForm> forms;  // the first is the one that is written
};

// Returns the components of the folder that single files can hold, the denoiser first. Returns
// InvalidArgument if the folder's class has no original layout that is supported, or for a U-Net
// with inputs that the original lacks. Other errors are those of reading configurations.
absl::StatusOr<std::vector<StoredComponent>> ReadStoredComponents(const PipelineFolder& folder);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_SINGLE_FILE_STORED_COMPONENT_H_
