// Builds a Program, node after node. Misuse (a duplicate name, a value nobody reads) is a bug of
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

  // A value that comes from outside.
  ValueId AddInput(const std::string& name, const ValueType& type);

  // What is added from here on belongs to this layer, until the next call. A frozen layer must not
  // read a value that has a gradient: the gradient would silently end there.
  void BeginLayer(const std::string& name, LayerKind kind);

  // Whether parameters added from here on to trainable layers are not trained: of low-rank
  // adaptation, all but the adapters are not. At first they are.
  void FreezeParameters(bool freeze) { freeze_parameters_ = freeze; }

  // Of the current layer. Names are unique within the program.
  ParameterId AddParameter(const std::string& name, const Shape& shape, const InitRule& init,
                           bool decay);

  // Of the current layer. The value that it computes takes the name of the layer and the node's
  // kind. Inputs may be repeated. At most 32 of them. Of its parameters all are trained or none.
  ValueId AddNode(std::unique_ptr<const Node> node, const std::vector<ValueId>& inputs,
                  const std::vector<ParameterId>& parameters = {});

  // The value becomes an output of the program under this name. Where it has a gradient, no node
  // may read it: the gradient that the caller gives would have to be told from the readers'.
  void MarkOutput(ValueId value, const std::string& name);

  const ValueType& type(ValueId value) const { return program_.values_[value.value()].type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }

  // Every computed value must be read or be an output. The builder is used up.
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
