// Builds a Program node by node. Misuse, such as a duplicate name or an unread value, is a bug in
// the model's code and dies.
#ifndef DPIPE_CORE_NN_PROGRAM_BUILDER_H_
#define DPIPE_CORE_NN_PROGRAM_BUILDER_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/nn/program.h"

namespace dpipe::nn {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name);

  // Adds a value that comes from outside.
  ValueId AddInput(const std::string& name, const ValueType& type);

  // Starts a layer; all that is added until the next call belongs to it. A frozen layer must not
  // read a value with a gradient, because the gradient would silently end there.
  void BeginLayer(const std::string& name, LayerKind kind);

  // If set, parameters added from here on to trainable layers are not trained. Low-rank adaptation
  // freezes all but the adapters this way. Not set initially.
  void FreezeParameters(bool freeze) { freeze_parameters_ = freeze; }

  // Adds a parameter to the current layer. Names are unique within the program.
  ParameterId AddParameter(const std::string& name, const Shape& shape, const InitRule& init,
                           bool decay);

  // Adds a node to the current layer. The value that it computes is named after the layer and the
  // node's kind. At most 32 inputs, which may repeat. Either all of its parameters are trained or
  // none.
  ValueId AddNode(std::unique_ptr<const Node> node, const std::vector<ValueId>& inputs,
                  const std::vector<ParameterId>& parameters = {});

  // Makes the value an output of the program under this name. No node may read an output with a
  // gradient: the caller's gradient could not be told apart from that of the readers.
  void MarkOutput(ValueId value, const std::string& name);

  const ValueType& type(ValueId value) const { return program_.values_[value.value()].type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }

  // Returns the program and leaves the builder unusable. Dies if a computed value is neither read
  // nor an output.
  Program Build();

 private:
  void FindGradients();
  void FindLiveness();

  Program program_;
  bool freeze_parameters_ = false;
  std::set<std::string> layer_names_, parameter_names_, input_names_;
};

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_PROGRAM_BUILDER_H_
