// A model: the programs of its components and the connections between them.
#ifndef DPIPE_CORE_NN_MODEL_H_
#define DPIPE_CORE_NN_MODEL_H_

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/program.h"

namespace dpipe::nn {

// The source of a component's external input.
struct InputSource {
  std::string component;  // a frozen component, earlier in the model's list
  std::string output;     // one of its program's outputs, by name
};

// Self-conditioning of a backbone that reads its own estimate. The first run is without gradients
// and takes zeros as the input; the second takes the first one's output. Both names are empty if
// the backbone has none.
struct SelfConditioning {
  std::string input;   // an external input with the output's type
  std::string output;  // without a gradient (AddDetach)
};

struct Component {
  std::string name;
  bool is_backbone = false;  // trained; all others are frozen and only run forward
  Program program;
  // Sources by external input. Inputs without a source are loaded (pixels, tokens) or drawn (noise,
  // timesteps).
  std::map<std::string, InputSource> sources;
  SelfConditioning self_conditioning = {};  // backbones only

  // Returns a backbone's only output other than the self-conditioning estimate.
  ValueId loss() const;
};

// Immutable. Components are ordered so that each is fed only by earlier ones.
class Model {
 public:
  // Returns InvalidArgument, naming the component and the input, for
  // - an unknown, trained or later source, or one of another shape or element type;
  // - no backbone, or one without exactly one output in addition to its self-conditioning estimate;
  // - a parameter name that occurs in two backbones.
  static absl::StatusOr<Model> Create(std::string name, std::vector<Component> components);

  const std::string& name() const { return name_; }
  int num_components() const { return static_cast<int>(components_.size()); }
  const Component& component(int i) const { return components_[i]; }
  // Indices of the backbones. Several backbones (cascaded models) train together on the same
  // samples and minimise the sum of their losses.
  const std::vector<int>& backbones() const { return backbones_; }
  // The first backbone.
  int backbone_index() const { return backbones_[0]; }
  const Component& backbone() const { return components_[backbones_[0]]; }
  // Returns a component's index among the backbones; -1 if it is none of them.
  int BackboneNumber(int component) const;
  // Returns -1 if there is no such component.
  int FindComponent(const std::string& name) const;
  // False if frozen parameters of a backbone are kept in another type (Program::StoreFrozen). They
  // cannot be divided among ranks, which exchange parts in fp32.
  bool BackbonesAreFp32() const;

 private:
  Model() = default;

  std::string name_;
  std::vector<Component> components_;
  std::vector<int> backbones_;
};

// Returns OK if the models differ only in their names and the shapes of their values. Components,
// their sources, layers, nodes and values must be the same and in the same order; parameters must
// also have the same shapes. Ids then mean the same in both models, the same values cross a cut,
// and a ParameterSet of one fits the other. Otherwise returns InvalidArgument, which names the
// first difference and shows both sides.
absl::Status CheckSameStructure(const Model& a, const Model& b);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_MODEL_H_
