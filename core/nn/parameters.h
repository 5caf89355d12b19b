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
#include "core/nn/parameter_source.h"
#include "core/nn/program.h"
#include "core/ops/product/weight.h"
#include "core/tensor/tensor.h"

namespace dpipe::nn {

// The part of a parameter that a set holds: all of it, or a shard.
struct ParameterPart {
  Shape whole;
  bool is_shard = false;
  Shard shard;

  // Returns this part of a whole tensor, as a view of the same storage.
  Tensor Of(const Tensor& tensor) const;
  // Adds a copy of a part under this name. A shard is copied to its place in the whole tensor; the
  // first shard to arrive allocates that tensor.
  void AddTo(const std::string& name, const Tensor& part,
             std::map<std::string, Tensor>* tensors) const;
};

// Owns fp32 masters and the fp32 gradients of trainable parameters. Frozen ones are kept as the
// program says (Program::StoreFrozen), except in sets of shards. A stage's set belongs to one rank.
// A set of frozen layers is only read (const) and may be shared by any number of ranks. The Program
// must outlive the set.
//
// If parameters are sharded over ranks, a rank has two sets. One holds shards: this rank's part of
// every parameter, of its gradient and of its optimizer state. The other is on demand: its masters
// and gradients exist only between Allocate and Release calls. If only trainable parameters are
// sharded, the set of shards has no others, and the set on demand keeps the frozen ones.
class ParameterSet {
 public:
  // Masters are zero until InitRandom or Load. Gradients are allocated and zero.
  ParameterSet(const Program& program, LayerRange layers, std::shared_ptr<Device> device);
  // Creates a set of shards, of all parameters or of the trainable ones: masters and gradients are
  // one-dimensional, the shard of each parameter's elements. Layers cannot be run with such a set.
  static std::unique_ptr<ParameterSet> OfShards(const Program& program, LayerRange layers,
                                                std::shared_ptr<Device> device, Shard shard,
                                                bool trainable_only = false);
  static std::unique_ptr<ParameterSet> OnDemand(const Program& program, LayerRange layers,
                                                std::shared_ptr<Device> device);
  // Creates a set whose masters share the storage of `tensors`, as for Load, and must not be
  // written. For several sets on one machine that only run passes.
  static absl::StatusOr<std::unique_ptr<ParameterSet>> Sharing(
      const Program& program, LayerRange layers, std::shared_ptr<Device> device,
      const std::map<std::string, Tensor>& tensors);
  // Creates a set for timing passes, with arbitrary values that are of the init rules' size.
  // Parameters of equal shape take turns with the same few tensors, so that a large model needs
  // little memory: for each shape, weights of at most `max_bytes_per_shape` (but at least one), and
  // as many gradients. There is no GradRow.
  static std::unique_ptr<ParameterSet> StandIn(const Program& program, LayerRange layers,
                                               std::shared_ptr<Device> device,
                                               int64_t max_bytes_per_shape);
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  const Program& program() const { return *program_; }
  LayerRange layers() const { return layers_; }
  // True if these layers of a program can be run with this set. The program must be the set's own
  // or have parameters with the same ids and shapes in these layers (see model.h).
  bool Fits(const Program& program, LayerRange layers) const;
  const std::shared_ptr<Device>& device() const { return device_; }

  // Ids of all parameters of the set and of the trainable ones, increasing.
  const std::vector<ParameterId>& ids() const { return ids_; }
  const std::vector<ParameterId>& trainable_ids() const { return trainable_ids_; }
  bool Contains(ParameterId id) const;
  ParameterPart part(ParameterId id) const;

  // For sets on demand: reads all frozen parameters. ReleaseMasters then keeps them. Errors as for
  // Load.
  absl::Status KeepFrozen(const ParameterSource& source);
  // Returns the ids of the parameters that KeepFrozen has read, increasing.
  const std::vector<ParameterId>& kept_ids() const { return kept_ids_; }
  // For sets on demand. Masters are uninitialised after AllocateMasters, gradients are zero after
  // AllocateGrads; existing ones stay unchanged.
  void AllocateMasters(LayerRange layers);
  void ReleaseMasters(LayerRange layers);
  bool HasMasters(LayerRange layers) const;
  void AllocateGrads(LayerRange layers);
  void ReleaseGrads(LayerRange layers);
  bool HasGrads(LayerRange layers) const;

  // Exchanges the weights of two sets of the same layers, both with all masters. Gradients stay.
  void SwapWeights(ParameterSet* other);

  const ops::Weight& weight(ParameterId id) const;
  // For writing the master (optimizer, loading); call MarkUpdated afterwards.
  ops::Weight* mutable_weight(ParameterId id);
  // Returns a trainable parameter's gradient: fp32, with the parameter's shape. The tensor shares
  // storage, so writes through it take effect.
  Tensor* grad(ParameterId id);
  const Tensor& grad(ParameterId id) const;

  void ZeroGrads();
  // Returns the gradients of some layers as one row of numbers that shares their storage; undefined
  // if these layers have none. Gradients are in order of ids, each aligned to 64 numbers; nobody
  // may change the zeros in between. The row's length depends only on the layers, not on the set.
  // Not for sets on demand.
  Tensor GradRow(LayerRange layers) const;
  // Initialises every parameter by its init rule. The numbers depend only on the seed and the
  // parameter's name, so they are the same for any distribution of the layers. Not for shards.
  void InitRandom(uint64_t seed);

  // Copies values by checkpoint name; sets of shards copy their part. Every parameter of the set
  // must be present, fp32 and of the right shape. Otherwise returns InvalidArgument, which lists
  // the missing and wrong ones. Other tensors are ignored.
  absl::Status Load(const std::map<std::string, Tensor>& tensors);
  // Reads every parameter of the set, one after another; sets of shards keep their part. After an
  // error some have been read.
  absl::Status Load(const ParameterSource& source);
  // For sets on demand: reads the parameters of some layers that have no masters yet. Several
  // threads may read different layers at the same time.
  absl::Status LoadMissing(LayerRange layers, const ParameterSource& source);
  // Adds copies of the values in fp32, by name (see ParameterPart::AddTo).
  void Collect(std::map<std::string, Tensor>* tensors) const;

  int64_t master_bytes() const;  // of the weights as they are kept
  int64_t grad_bytes() const;
  // Bytes of the weights' cached prepared forms at present.
  int64_t prepared_bytes() const;

 private:
  struct Entry {
    std::shared_ptr<ops::Weight> weight;  // null if released
    Tensor grad;                          // undefined if frozen or released
  };
  ParameterSet(const Program& program, LayerRange layers, std::shared_ptr<Device> device,
               bool is_sharded, Shard shard);
  absl::Status LoadOne(ParameterId id, const ParameterSource& source);
  const Entry& entry(ParameterId id) const;
  bool IsTrainable(ParameterId id) const;
  // Allocates all gradients as one row of zeros.
  void AllocateGradRow();
  // Length of a gradient's part of the row, padding included.
  int64_t RowSize(ParameterId id) const;
  // Returns the tensors of ids(), in order; errors as for Load.
  absl::StatusOr<std::vector<Tensor>> Find(const std::map<std::string, Tensor>& tensors) const;
  // Returns the shape as stored.
  Shape ShapeOf(ParameterId id) const;
  std::shared_ptr<ops::Weight> NewWeight(ParameterId id) const;  // uninitialised
  // Returns a weight of fp32 values, which it shares if it is kept in fp32. Not for shards.
  std::shared_ptr<ops::Weight> WeightOf(ParameterId id, Tensor values) const;

  const Program* program_;
  LayerRange layers_;
  std::shared_ptr<Device> device_;
  const bool is_sharded_ = false;
  const Shard shard_;
  int first_id_ = 0;
  std::vector<Entry> entries_;
  std::vector<ParameterId> ids_, trainable_ids_, kept_ids_;
  Tensor grads_;  // storage of all gradients; undefined on demand
};

// Copies the weights of some layers of a set to `device`, for forward passes only: there is no room
// for gradients. The other layers have none in the copy. Ranges may overlap.
std::unique_ptr<ParameterSet> CopyParameters(const ParameterSet& parameters,
                                             const std::vector<LayerRange>& layers,
                                             const std::shared_ptr<Device>& device);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_PARAMETERS_H_
