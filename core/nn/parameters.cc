#include "core/nn/parameters.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/philox.h"

namespace dpipe::nn {
namespace {

// FNV-1a: the key of a parameter's random numbers must be the same on every machine and build.
uint64_t HashName(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

void Initialise(const ParameterInfo& info, uint64_t seed, Tensor* master) {
  RandomStream random(seed, HashName(info.name), 0, RandomPurpose::kInit);
  for (float& x : master->span<float>()) {
    switch (info.init.kind) {
      case InitRule::Kind::kZeros:
        x = 0;
        break;
      case InitRule::Kind::kOnes:
        x = 1;
        break;
      case InitRule::Kind::kUniform:
        x = info.init.scale * (2 * random.NextUniform() - 1);
        break;
      case InitRule::Kind::kNormal:
        x = info.init.scale * random.NextNormal();
        break;
    }
  }
}

}  // namespace

ParameterSet::ParameterSet(const Program& program, LayerRange layers,
                           std::shared_ptr<Device> device)
    : program_(&program), layers_(layers), device_(std::move(device)) {
  DPIPE_CHECK(program.all_layers().Contains(layers)) << layers.ToString();
  const auto [begin, end] = program.ParameterRange(layers);
  first_id_ = begin;
  for (int i = begin; i < end; ++i) {
    const ParameterId id(i);
    const ParameterInfo& info = program.parameter(id);
    Entry entry;
    entry.weight = std::make_unique<ops::Weight>(Tensor::Zeros(device_, info.shape, DType::kF32));
    if (program.layer(info.layer).kind == LayerKind::kTrainable) {
      entry.grad = Tensor::Zeros(device_, info.shape, DType::kF32);
      trainable_ids_.push_back(id);
    }
    ids_.push_back(id);
    entries_.push_back(std::move(entry));
  }
}

bool ParameterSet::Contains(ParameterId id) const {
  return first_id_ <= id.value() && id.value() < first_id_ + static_cast<int>(entries_.size());
}

const ParameterSet::Entry& ParameterSet::entry(ParameterId id) const {
  DPIPE_CHECK(Contains(id)) << "parameter " << id << " is not in layers " << layers_.ToString();
  return entries_[id.value() - first_id_];
}

const ops::Weight& ParameterSet::weight(ParameterId id) const { return *entry(id).weight; }

ops::Weight* ParameterSet::mutable_weight(ParameterId id) { return entry(id).weight.get(); }

Tensor* ParameterSet::grad(ParameterId id) {
  return const_cast<Tensor*>(&std::as_const(*this).grad(id));
}

const Tensor& ParameterSet::grad(ParameterId id) const {
  const Tensor& grad = entry(id).grad;
  DPIPE_CHECK(grad.defined()) << program_->parameter(id).name << " is frozen";
  return grad;
}

void ParameterSet::ZeroGrads() {
  for (ParameterId id : trainable_ids_) grad(id)->FillZero();
}

void ParameterSet::InitRandom(uint64_t seed) {
  for (ParameterId id : ids_) {
    Tensor master = weight(id).master();
    Initialise(program_->parameter(id), seed, &master);
    mutable_weight(id)->MarkUpdated();
  }
}

absl::Status ParameterSet::Load(const std::map<std::string, Tensor>& tensors) {
  std::vector<std::string> problems;
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
      Tensor master = weight(id).master();
      master.CopyFrom(it->second);
      mutable_weight(id)->MarkUpdated();
    }
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("parameters of ", program_->name(), ": ", absl::StrJoin(problems, "; ")));
}

void ParameterSet::Collect(std::map<std::string, Tensor>* tensors) const {
  for (ParameterId id : ids_) {
    (*tensors)[program_->parameter(id).name] = weight(id).master().Clone();
  }
}

int64_t ParameterSet::master_bytes() const { return program_->ParameterBytes(layers_); }

int64_t ParameterSet::grad_bytes() const {
  int64_t sum = 0;
  for (ParameterId id : trainable_ids_) sum += grad(id).size_bytes();
  return sum;
}

int64_t ParameterSet::prepared_bytes() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.weight->prepared_bytes();
  return sum;
}

}  // namespace dpipe::nn
