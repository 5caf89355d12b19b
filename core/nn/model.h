// A model: its components' programs, and how they feed one another.
#ifndef DPIPE_CORE_NN_MODEL_H_
#define DPIPE_CORE_NN_MODEL_H_

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/program.h"

namespace dpipe::nn {

// Where an external input of a component comes from.
struct InputSource {
  std::string component;  // a frozen component, earlier in the model's list
  std::string output;     // one of its program's outputs, by name
};

struct Component {
  std::string name;
  bool is_backbone = false;  // trained; all others are frozen and only run forward
  Program program;
  // By external input. Inputs not named here are loaded (pixels, tokens) or drawn (noise,
  // timesteps) by whoever needs them.
  std::map<std::string, InputSource> sources;
};

// Immutable. Components come in an order in which each is fed by earlier ones only.
class Model {
 public:
  // InvalidArgument names the component and the input: an unknown or later source, an output of
  // another shape or element type, no backbone or several, a backbone without exactly one output.
  static absl::StatusOr<Model> Create(std::string name, std::vector<Component> components);

  const std::string& name() const { return name_; }
  int num_components() const { return static_cast<int>(components_.size()); }
  const Component& component(int i) const { return components_[i]; }
  int backbone_index() const { return backbone_; }
  const Component& backbone() const { return components_[backbone_]; }
  // -1 where there is none.
  int FindComponent(const std::string& name) const;

 private:
  Model() = default;

  std::string name_;
  std::vector<Component> components_;
  int backbone_ = -1;
};

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_MODEL_H_
