#include "core/nn/parameters.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/host/usable_cpus.h"

namespace dpipe::nn {
namespace {

// Fewer are drawn sooner than a thread starts.
constexpr int64_t kBytesPerThread = 1 << 20;

// Values of one parameter, repeated over larger ones.
constexpr int64_t kPatternSize = 1 << 14;

// Fills a tensor of any device with values of the size that the init rule gives.
void FillArbitrarily(const ParameterInfo& info, const Tensor& tensor) {
  std::vector<float> pattern(std::min(kPatternSize, tensor.num_elements()));
  DrawParameter(info, /*seed=*/0, absl::MakeSpan(pattern));
  const Tensor host = tensor.device()->has_host_memory()
                          ? tensor
                          : Tensor::Empty(Device::Cpu(), tensor.shape(), DType::kF32);
  const absl::Span<float> values = host.span<float>();
  for (size_t i = 0; i < values.size(); i += pattern.size()) {
    std::copy_n(pattern.begin(), std::min(pattern.size(), values.size() - i), values.begin() + i);
  }
  if (!tensor.device()->has_host_memory()) Tensor(tensor).CopyFrom(host);
}

}  // namespace

Tensor ParameterPart::Of(const Tensor& tensor) const {
  if (!is_shard) return tensor;
  const int64_t n = tensor.num_elements();
  return tensor.Reshape({n}).Slice(shard.Begin(n), shard.End(n));
}

void ParameterPart::AddTo(const std::string& name, const Tensor& part,
                          std::map<std::string, Tensor>* tensors) const {
  Tensor& tensor = (*tensors)[name];
  if (!is_shard) {
    tensor = part.Clone();
    return;
  }
  if (!tensor.defined()) tensor = Tensor::Zeros(part.device(), whole, part.dtype());
  Of(tensor).CopyFrom(part);
}

ParameterSet::ParameterSet(const Program& program, LayerRange layers,
                           std::shared_ptr<Device> device, bool is_sharded, Shard shard)
    : program_(&program),
      layers_(layers),
      device_(std::move(device)),
      is_sharded_(is_sharded),
      shard_(shard) {
  DPIPE_CHECK(program.all_layers().Contains(layers)) << layers.ToString();
  const auto [begin, end] = program.ParameterRange(layers);
  first_id_ = begin;
  entries_.resize(end - begin);
  for (int i = begin; i < end; ++i) {
    ids_.push_back(ParameterId(i));
    if (IsTrainable(ids_.back())) trainable_ids_.push_back(ids_.back());
  }
}

ParameterSet::ParameterSet(const Program& program, LayerRange layers,
                           std::shared_ptr<Device> device)
    : ParameterSet(program, layers, std::move(device), /*is_sharded=*/false, {}) {
  AllocateMasters(layers);
  AllocateGradRow();
  for (ParameterId id : ids_) mutable_weight(id)->FillZero();
}

std::unique_ptr<ParameterSet> ParameterSet::OfShards(const Program& program, LayerRange layers,
                                                     std::shared_ptr<Device> device, Shard shard,
                                                     bool trainable_only) {
  auto set = std::unique_ptr<ParameterSet>(
      new ParameterSet(program, layers, std::move(device), /*is_sharded=*/true, shard));
  if (trainable_only) set->ids_ = set->trainable_ids_;
  set->AllocateGradRow();
  for (ParameterId id : set->ids_) {
    Entry& entry = set->entries_[id.value() - set->first_id_];
    entry.weight = set->NewWeight(id);
    entry.weight->FillZero();
  }
  return set;
}

std::unique_ptr<ParameterSet> ParameterSet::OnDemand(const Program& program, LayerRange layers,
                                                     std::shared_ptr<Device> device) {
  return std::unique_ptr<ParameterSet>(
      new ParameterSet(program, layers, std::move(device), /*is_sharded=*/false, {}));
}

absl::StatusOr<std::unique_ptr<ParameterSet>> ParameterSet::Sharing(
    const Program& program, LayerRange layers, std::shared_ptr<Device> device,
    const std::map<std::string, Tensor>& tensors) {
  auto set = OnDemand(program, layers, std::move(device));
  DPIPE_ASSIGN_OR_RETURN(std::vector<Tensor> masters, set->Find(tensors));
  for (size_t i = 0; i < masters.size(); ++i) {
    set->entries_[i].weight = set->WeightOf(set->ids_[i], std::move(masters[i]));
  }
  set->AllocateGradRow();
  return set;
}

std::unique_ptr<ParameterSet> ParameterSet::StandIn(const Program& program, LayerRange layers,
                                                    std::shared_ptr<Device> device,
                                                    int64_t max_bytes_per_shape) {
  auto set = OnDemand(program, layers, std::move(device));
  std::map<std::string, std::vector<int>> made;  // entries, by properties that must be equal
  std::map<std::string, size_t> used;
  for (size_t i = 0; i < set->entries_.size(); ++i) {
    const ParameterInfo& info = program.parameter(set->ids_[i]);
    const std::string key = absl::StrCat(info.shape.ToString(), info.trainable ? " trained " : " ",
                                         ops::WeightStorageName(info.storage));
    std::vector<int>& first = made[key];
    const int64_t bytes = ops::StoredBytes(info.storage, info.shape.num_elements());
    const int64_t count = std::max<int64_t>(1, max_bytes_per_shape / std::max<int64_t>(1, bytes));
    Entry& entry = set->entries_[i];
    if (static_cast<int64_t>(first.size()) >= count) {
      entry = set->entries_[first[used[key]++ % first.size()]];
      continue;
    }
    const Tensor values = Tensor::Empty(set->device_, info.shape, DType::kF32);
    FillArbitrarily(info, values);
    entry.weight = set->WeightOf(set->ids_[i], values);
    if (info.trainable) entry.grad = Tensor::Zeros(set->device_, info.shape, DType::kF32);
    first.push_back(static_cast<int>(i));
  }
  return set;
}

bool ParameterSet::IsTrainable(ParameterId id) const { return program_->parameter(id).trainable; }

Shape ParameterSet::ShapeOf(ParameterId id) const {
  const Shape& shape = program_->parameter(id).shape;
  return is_sharded_ ? Shape({shard_.Size(shape.num_elements())}) : shape;
}

ParameterPart ParameterSet::part(ParameterId id) const {
  return {program_->parameter(id).shape, is_sharded_, shard_};
}

bool ParameterSet::Fits(const Program& program, LayerRange layers) const {
  if (!layers_.Contains(layers)) return false;
  if (&program == program_) return true;
  if (!program.all_layers().Contains(layers)) return false;
  const auto [begin, end] = program.ParameterRange(layers);
  if (program_->ParameterRange(layers) != std::make_pair(begin, end)) return false;
  for (int i = begin; i < end; ++i) {
    const ParameterId id(i);
    if (program.parameter(id).shape != program_->parameter(id).shape) return false;
  }
  return true;
}

void ParameterSet::AllocateMasters(LayerRange layers) {
  const auto [begin, end] = program_->ParameterRange(layers);
  for (int i = begin; i < end; ++i) {
    DPIPE_CHECK(Contains(ParameterId(i)));
    std::shared_ptr<ops::Weight>& weight = entries_[i - first_id_].weight;
    if (weight == nullptr) weight = NewWeight(ParameterId(i));
  }
}

std::shared_ptr<ops::Weight> ParameterSet::NewWeight(ParameterId id) const {
  const auto storage = is_sharded_ ? ops::WeightStorage::kFp32 : program_->parameter(id).storage;
  return std::make_shared<ops::Weight>(device_, ShapeOf(id), storage);
}

std::shared_ptr<ops::Weight> ParameterSet::WeightOf(ParameterId id, Tensor values) const {
  if (program_->parameter(id).storage == ops::WeightStorage::kFp32) {
    return std::make_shared<ops::Weight>(std::move(values));
  }
  auto weight = NewWeight(id);
  weight->Assign(values);
  return weight;
}

void ParameterSet::ReleaseMasters(LayerRange layers) {
  const auto [begin, end] = program_->ParameterRange(layers);
  for (int i = begin; i < end; ++i) {
    const bool is_kept = !kept_ids_.empty() && !IsTrainable(ParameterId(i));
    if (!is_kept) entries_[i - first_id_].weight = nullptr;
  }
}

absl::Status ParameterSet::KeepFrozen(const ParameterSource& source) {
  for (ParameterId id : ids_) {
    if (IsTrainable(id)) continue;
    entries_[id.value() - first_id_].weight = NewWeight(id);
    DPIPE_RETURN_IF_ERROR(LoadOne(id, source));
    kept_ids_.push_back(id);
  }
  return absl::OkStatus();
}

absl::Status ParameterSet::LoadOne(ParameterId id, const ParameterSource& source) {
  DPIPE_ASSIGN_OR_RETURN(const Tensor value, source.Read(program_->parameter(id)));
  mutable_weight(id)->Assign(part(id).Of(value));
  return absl::OkStatus();
}

bool ParameterSet::HasMasters(LayerRange layers) const {
  const auto [begin, end] = program_->ParameterRange(layers);
  for (int i = begin; i < end; ++i) {
    if (!Contains(ParameterId(i)) || entries_[i - first_id_].weight == nullptr) return false;
  }
  return true;
}

void ParameterSet::AllocateGrads(LayerRange layers) {
  const auto [begin, end] = program_->ParameterRange(layers);
  for (int i = begin; i < end; ++i) {
    Tensor& grad = entries_[i - first_id_].grad;
    if (grad.defined() || !IsTrainable(ParameterId(i))) continue;
    grad = Tensor::Zeros(device_, ShapeOf(ParameterId(i)), DType::kF32);
  }
}

int64_t ParameterSet::RowSize(ParameterId id) const {
  constexpr int64_t kPlaces = 64;  // 256 bytes, the devices' allocation alignment
  return (ShapeOf(id).num_elements() + kPlaces - 1) / kPlaces * kPlaces;
}

void ParameterSet::AllocateGradRow() {
  int64_t size = 0;
  for (ParameterId id : trainable_ids_) size += RowSize(id);
  grads_ = Tensor::Zeros(device_, {size}, DType::kF32);
  int64_t begin = 0;
  for (ParameterId id : trainable_ids_) {
    const Shape shape = ShapeOf(id);
    entries_[id.value() - first_id_].grad =
        grads_.Slice(begin, begin + shape.num_elements()).Reshape(shape);
    begin += RowSize(id);
  }
}

Tensor ParameterSet::GradRow(LayerRange layers) const {
  DPIPE_CHECK(grads_.defined() && layers_.Contains(layers)) << layers.ToString();
  const auto [first, last] = program_->ParameterRange(layers);
  int64_t begin = 0, end = 0;
  for (ParameterId id : trainable_ids_) {
    if (id.value() < first) begin += RowSize(id);
    if (id.value() < last) end += RowSize(id);
  }
  return begin == end ? Tensor() : grads_.Slice(begin, end);
}

void ParameterSet::ReleaseGrads(LayerRange layers) {
  const auto [begin, end] = program_->ParameterRange(layers);
  for (int i = begin; i < end; ++i) {
    Tensor released;
    std::swap(released, entries_[i - first_id_].grad);
  }
}

bool ParameterSet::HasGrads(LayerRange layers) const {
  const auto [begin, end] = program_->ParameterRange(layers);
  for (int i = begin; i < end; ++i) {
    if (IsTrainable(ParameterId(i)) && !entries_[i - first_id_].grad.defined()) return false;
  }
  return true;
}

void ParameterSet::SwapWeights(ParameterSet* other) {
  DPIPE_CHECK(program_ == other->program_ && layers_ == other->layers_);
  DPIPE_CHECK(HasMasters(layers_) && other->HasMasters(layers_)) << layers_.ToString();
  for (size_t i = 0; i < entries_.size(); ++i) {
    std::swap(entries_[i].weight, other->entries_[i].weight);
  }
}

bool ParameterSet::Contains(ParameterId id) const {
  return first_id_ <= id.value() && id.value() < first_id_ + static_cast<int>(entries_.size());
}

const ParameterSet::Entry& ParameterSet::entry(ParameterId id) const {
  DPIPE_CHECK(Contains(id)) << "parameter " << id << " is not in layers " << layers_.ToString();
  return entries_[id.value() - first_id_];
}

const ops::Weight& ParameterSet::weight(ParameterId id) const {
  const Entry& found = entry(id);
  DPIPE_CHECK(found.weight != nullptr) << program_->parameter(id).name << " is released";
  return *found.weight;
}

ops::Weight* ParameterSet::mutable_weight(ParameterId id) { return entry(id).weight.get(); }

Tensor* ParameterSet::grad(ParameterId id) {
  return const_cast<Tensor*>(&std::as_const(*this).grad(id));
}

const Tensor& ParameterSet::grad(ParameterId id) const {
  const Tensor& grad = entry(id).grad;
  DPIPE_CHECK(grad.defined()) << program_->parameter(id).name << " is frozen or released";
  return grad;
}

void ParameterSet::ZeroGrads() {
  if (grads_.defined()) return grads_.FillZero();
  for (ParameterId id : trainable_ids_) grad(id)->FillZero();
}

void ParameterSet::InitRandom(uint64_t seed) {
  DPIPE_CHECK(!is_sharded_) << "shards are loaded";
  std::atomic<size_t> next = 0;
  const auto initialise = [&] {
    for (size_t i = next++; i < ids_.size(); i = next++) {
      ops::Weight* const weight = mutable_weight(ids_[i]);
      const bool has_master = weight->storage() == ops::WeightStorage::kFp32;
      const Tensor values = has_master ? weight->master()
                                       : Tensor::Empty(Device::Cpu(), weight->shape(), DType::kF32);
      DrawParameter(program_->parameter(ids_[i]), seed, values.span<float>());
      if (!has_master) weight->Assign(values);
    }
  };
  const int wanted = static_cast<int>(master_bytes() / kBytesPerThread);
  std::vector<std::thread> others;
  for (int i = 1; i < std::min(wanted, FindUsableCpus().count); ++i)
    others.emplace_back(initialise);
  initialise();
  for (std::thread& thread : others) thread.join();
  for (ParameterId id : ids_) mutable_weight(id)->MarkUpdated();
}

absl::StatusOr<std::vector<Tensor>> ParameterSet::Find(
    const std::map<std::string, Tensor>& tensors) const {
  std::vector<std::string> problems;
  std::vector<Tensor> found;
  for (ParameterId id : ids_) {
    const ParameterInfo& info = program_->parameter(id);
    const auto it = tensors.find(info.name);
    if (it == tensors.end()) {
      problems.push_back(absl::StrCat("'", info.name, "' is missing"));
    } else if (it->second.shape() != info.shape || it->second.dtype() != DType::kF32) {
      problems.push_back(absl::StrCat("'", info.name, "' is ", DTypeName(it->second.dtype()), " ",
                                      it->second.shape().ToString(), ", expected fp32 ",
                                      info.shape.ToString()));
    } else {
      found.push_back(it->second);
    }
  }
  if (problems.empty()) return found;
  return absl::InvalidArgumentError(
      absl::StrCat("parameters of ", program_->name(), ": ", absl::StrJoin(problems, "; ")));
}

absl::Status ParameterSet::Load(const std::map<std::string, Tensor>& tensors) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> found, Find(tensors));
  for (size_t i = 0; i < ids_.size(); ++i) {
    mutable_weight(ids_[i])->Assign(part(ids_[i]).Of(found[i]));
  }
  return absl::OkStatus();
}

absl::Status ParameterSet::Load(const ParameterSource& source) {
  for (ParameterId id : ids_) DPIPE_RETURN_IF_ERROR(LoadOne(id, source));
  return absl::OkStatus();
}

absl::Status ParameterSet::LoadMissing(LayerRange layers, const ParameterSource& source) {
  DPIPE_CHECK(!is_sharded_ && device_->has_host_memory()) << device_->name();
  const auto [begin, end] = program_->ParameterRange(layers);
  for (int i = begin; i < end; ++i) {
    DPIPE_CHECK(Contains(ParameterId(i)));
    std::shared_ptr<ops::Weight>& weight = entries_[i - first_id_].weight;
    if (weight != nullptr) continue;
    DPIPE_ASSIGN_OR_RETURN(Tensor value, source.Read(program_->parameter(ParameterId(i))));
    weight = WeightOf(ParameterId(i), std::move(value));
  }
  return absl::OkStatus();
}

void ParameterSet::Collect(std::map<std::string, Tensor>* tensors) const {
  for (ParameterId id : ids_) {
    part(id).AddTo(program_->parameter(id).name, weight(id).As(DType::kF32), tensors);
  }
}

int64_t ParameterSet::master_bytes() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) {
    if (entry.weight != nullptr) sum += entry.weight->stored_bytes();
  }
  return sum;
}

int64_t ParameterSet::grad_bytes() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) {
    if (entry.grad.defined()) sum += entry.grad.size_bytes();
  }
  return sum;
}

int64_t ParameterSet::prepared_bytes() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) {
    if (entry.weight != nullptr) sum += entry.weight->prepared_bytes();
  }
  return sum;
}

std::unique_ptr<ParameterSet> CopyParameters(const ParameterSet& parameters,
                                             const std::vector<LayerRange>& layers,
                                             const std::shared_ptr<Device>& device) {
  // On demand, because an ordinary set allocates gradients.
  auto copy = ParameterSet::OnDemand(parameters.program(), parameters.layers(), device);
  for (const LayerRange& range : layers) {
    for (int layer = range.begin; layer < range.end; ++layer) {
      if (copy->HasMasters({layer, layer + 1})) continue;
      copy->AllocateMasters({layer, layer + 1});
      const auto [begin, end] = parameters.program().ParameterRange({layer, layer + 1});
      for (ParameterId id(begin); id.value() < end; id = ParameterId(id.value() + 1)) {
        copy->mutable_weight(id)->Assign(parameters.weight(id));
      }
    }
  }
  return copy;
}

}  // namespace dpipe::nn
