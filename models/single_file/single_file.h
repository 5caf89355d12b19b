// Reads and writes a model's weights as a single file in the original layout.
#ifndef DPIPE_MODELS_SINGLE_FILE_SINGLE_FILE_H_
#define DPIPE_MODELS_SINGLE_FILE_SINGLE_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/parameter_source.h"
#include "core/tensor/safetensors.h"
#include "models/single_file/stored_component.h"
#include "models/weights/weights.h"

namespace dpipe::models {

// Returns the smallest format that holds all of these tensors exactly.
StoredFormat NarrowestFormat(const std::vector<const SafetensorsView*>& tensors);

// A file beside the components of a configuration. Immutable.
//
// A component's form is the one of which the file has the most tensors. It is absent if the file
// has none of its tensors.
class SingleFile {
 public:
  SingleFile(SafetensorsFile file, const std::vector<StoredComponent>& components);

  // Returns InvalidArgument unless every component that is not absent is complete, with the right
  // shapes, readable dtypes and no surplus tensors: for each such component the number of tensors
  // and the first few names. `components` are those of the constructor.
  absl::Status Check() const;
  // Returns the number of differences that Check finds. An absent denoiser counts as all of its
  // tensors.
  int64_t num_mismatches() const;

  bool has(const std::string& component) const { return found_.count(component) > 0; }
  // Returns the component's parameters as diffusers and transformers store them. Each is read when
  // it is asked for, and its pages are released. Check must have accepted the file. Reading returns
  // InvalidArgument for a value that is NaN or infinite.
  nn::ParameterSourcePtr SourceOf(const std::string& component) const;
  StoredFormat FormatOf(const std::string& component) const;
  // Names of tensors that belong to no component: weights' averages, tables of noise schedules.
  const std::vector<std::string>& other_tensors() const { return other_tensors_; }

 private:
  // The tensor in the file that holds a parameter.
  struct Location {
    const SafetensorsView* view = nullptr;  // null if it is not stored
    int64_t first_row = 0;
    Rearrangement rearrangement = Rearrangement::kNone;
  };
  struct Component {
    std::map<std::string, Location> locations;  // by parameter
    std::vector<const SafetensorsView*> tensors;
    std::vector<std::string> missing, surplus, wrong;
  };
  void Find(const StoredComponent& component, const OriginalForm& form);
  // Sorts the tensors that are no component's: surplus ones and those of no component.
  void FindOthers(const std::map<std::string, const OriginalForm*>& forms);

  const std::shared_ptr<const SafetensorsFile> file_;  // shared with the sources
  std::map<std::string, Component> found_;
  std::vector<std::string> other_tensors_;
  int64_t num_absent_ = 0;  // parameters of the denoiser, if it is absent
};

// A component whose parameters are written to a single file.
struct WrittenComponent {
  const StoredComponent* component = nullptr;
  const OriginalForm* form = nullptr;  // one of its forms
  nn::ParameterSourcePtr source;
  StoredFormat format = StoredFormat::kFp32;
};

// Writes a single file atomically, reading one parameter after another. Returns InvalidArgument if
// a parameter that the layout takes for the identity has other values. Other errors are those of
// the sources and of writing.
absl::Status WriteSingleFile(const std::string& path,
                             const std::vector<WrittenComponent>& components);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_SINGLE_FILE_SINGLE_FILE_H_
