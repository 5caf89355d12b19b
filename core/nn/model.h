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

// A backbone that reads its own estimate: it runs first without gradient, with zeros for the input,
// and then again with what it gave the first time. Both empty: it does not.
struct SelfConditioning {
  std::string input;   // external, of the output's type
  std::string output;  // without a gradient (AddDetach)
};

struct Component {
  std::string name;
  bool is_backbone = false;  // trained; all others are frozen and only run forward
  Program program;
  // By external input. Inputs not named here are loaded (pixels, tokens) or drawn (noise,
  // timesteps) by whoever needs them.
  std::map<std::string, InputSource> sources;
  SelfConditioning self_conditioning = {};  // of a backbone

  // Of a backbone: the one output that is not the self-conditioning estimate.
  ValueId loss() const;
};

// Immutable. Components come in an order in which each is fed by earlier ones only.
class Model {
 public:
  // InvalidArgument names the component and the input: an unknown, trained or later source, an
  // output of another shape or element type, no backbone, a backbone without exactly one output
  // besides its self-conditioning estimate, a parameter's name in two backbones.
  static absl::StatusOr<Model> Create(std::string name, std::vector<Component> components);

  const std::string& name() const { return name_; }
  int num_components() const { return static_cast<int>(components_.size()); }
  const Component& component(int i) const { return components_[i]; }
  // Indices of the backbones: one, or several that are trained together on the same samples, the
  // sum of whose losses is minimised (cascaded models).
  const std::vector<int>& backbones() const { return backbones_; }
  // The first of them.
  int backbone_index() const { return backbones_[0]; }
  const Component& backbone() const { return components_[backbones_[0]]; }
  // Which of the backbones a component is; -1 if it is none.
  int BackboneNumber(int component) const;
  // -1 where there is none.
  int FindComponent(const std::string& name) const;

 private:
  Model() = default;

  std::string name_;
  std::vector<Component> components_;
  std::vector<int> backbones_;
};

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_MODEL_H_
