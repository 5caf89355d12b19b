// The parameters of a range of a Program's layers, on one device.
#ifndef DPIPE_CORE_NN_PARAMETERS_H_
#define DPIPE_CORE_NN_PARAMETERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/range.h"
#include "core/base/shard.h"
#include "core/base/status.h"
#include "core/nn/program.h"
#include "core/ops/weight.h"
#include "core/tensor/tensor.h"

namespace dpipe::nn {

// What a set holds of a parameter: all of it, or a shard.
struct ParameterPart {
  Shape whole;
  bool is_shard = false;
  Shard shard;

  // This part of a whole tensor: a view of the same storage.
  Tensor Of(const Tensor& tensor) const;
  // Adds a copy of a part under this name; of a shard, fills its place in the tensor, which the
  // first to come makes.
  void AddTo(const std::string& name, const Tensor& part,
             std::map<std::string, Tensor>* tensors) const;
};

// Owns fp32 masters and, for parameters of trainable layers, fp32 gradients. A stage's set belongs
// to one rank. A set of frozen layers is only read (const) and may be shared by any number of
// ranks. The Program must outlive it.
//
// Where parameters are divided over ranks, a rank has two sets: one of shards, with this rank's
// part of every parameter, its gradient and what the optimizer makes of them; and one on demand,
// whose masters and gradients exist only between Allocate and Release calls.
class ParameterSet {
 public:
  // Masters are zero until InitRandom or Load. Gradients are allocated and zero.
  ParameterSet(const Program& program, LayerRange layers, std::shared_ptr<Device> device);
  // Masters and gradients are rows of numbers, the shard of each parameter's. No layer can be run
  // with it.
  static std::unique_ptr<ParameterSet> OfShards(const Program& program, LayerRange layers,
                                                std::shared_ptr<Device> device, Shard shard);
  static std::unique_ptr<ParameterSet> OnDemand(const Program& program, LayerRange layers,
                                                std::shared_ptr<Device> device);
  // Masters share the storage of `tensors`, which are as Load's, and are not to be written: what
  // several sets on one machine need that only run passes.
  static absl::StatusOr<std::unique_ptr<ParameterSet>> Sharing(
      const Program& program, LayerRange layers, std::shared_ptr<Device> device,
      const std::map<std::string, Tensor>& tensors);
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  const Program& program() const { return *program_; }
  LayerRange layers() const { return layers_; }
  // Whether layers of a program can be run with this set: of its own program, or of one whose
  // parameters of these layers have the same ids and shapes (see alike.h).
  bool Fits(const Program& program, LayerRange layers) const;
  const std::shared_ptr<Device>& device() const { return device_; }

  // Ids of the parameters, increasing; of those in trainable layers.
  const std::vector<ParameterId>& ids() const { return ids_; }
  const std::vector<ParameterId>& trainable_ids() const { return trainable_ids_; }
  bool Contains(ParameterId id) const;
  ParameterPart part(ParameterId id) const;

  // Of a set on demand. Masters are uninitialised after AllocateMasters, gradients zero after
  // AllocateGrads; what is there already stays as it is.
  void AllocateMasters(LayerRange layers);
  void ReleaseMasters(LayerRange layers);
  bool HasMasters(LayerRange layers) const;
  void AllocateGrads(LayerRange layers);
  void ReleaseGrads(LayerRange layers);
  bool HasGrads(LayerRange layers) const;

  // Exchanges the weights of two sets of the same layers, both with all masters; gradients stay.
  void SwapWeights(ParameterSet* other);

  const ops::Weight& weight(ParameterId id) const;
  // To write the master (optimizer, loading) and then MarkUpdated.
  ops::Weight* mutable_weight(ParameterId id);
  // fp32, shaped as the parameter; trainable ones only. The tensor shares storage: writes through
  // it are seen.
  Tensor* grad(ParameterId id);
  const Tensor& grad(ParameterId id) const;

  void ZeroGrads();
  // Of a set that is not on demand: the gradients of some layers as one row of numbers, in order of
  // ids, each from a multiple of 64 numbers on, with zeros in between that nobody may change. The
  // row is as long wherever these layers are. Undefined where there are none; shares storage.
  Tensor GradRow(LayerRange layers) const;
  // Every parameter by its init rule. The numbers depend on the seed and the parameter's name only,
  // so they are the same however the layers are distributed. Not of shards.
  void InitRandom(uint64_t seed);

  // By checkpoint name. Every parameter of the set must be there, fp32, of the right shape (else
  // InvalidArgument that lists what is missing or wrong); others are ignored. Values are copied; of
  // shards, their part of the values.
  absl::Status Load(const std::map<std::string, Tensor>& tensors);
  // Adds copies of the masters, by name (see ParameterPart::AddTo).
  void Collect(std::map<std::string, Tensor>* tensors) const;

  int64_t master_bytes() const;
  int64_t grad_bytes() const;
  // Of the weights' cached forms, now.
  int64_t prepared_bytes() const;

 private:
  struct Entry {
    std::unique_ptr<ops::Weight> weight;  // null where released
    Tensor grad;                          // undefined where frozen or released
  };
  ParameterSet(const Program& program, LayerRange layers, std::shared_ptr<Device> device,
               bool is_sharded, Shard shard);
  const Entry& entry(ParameterId id) const;
  bool IsTrainable(ParameterId id) const;
  // As one row, all zero.
  void AllocateGradRow();
  // Numbers that a gradient takes of the row.
  int64_t RowSize(ParameterId id) const;
  // Of ids(), in order; errors are Load's.
  absl::StatusOr<std::vector<Tensor>> Find(const std::map<std::string, Tensor>& tensors) const;
  // As it is stored.
  Shape ShapeOf(ParameterId id) const;

  const Program* program_;
  LayerRange layers_;
  std::shared_ptr<Device> device_;
  const bool is_sharded_ = false;
  const Shard shard_;
  int first_id_ = 0;
  std::vector<Entry> entries_;
  std::vector<ParameterId> ids_, trainable_ids_;
  Tensor grads_;  // what the gradients are parts of; undefined on demand
};

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_PARAMETERS_H_
