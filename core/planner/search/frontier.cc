#include "core/planner/search/frontier.h"

#include <algorithm>
#include <utility>

namespace dpipe {

CandidateOrder Order(const Candidate& candidate) {
  const PipelineShape& shape = candidate.shape;
  return {shape.num_stages,      shape.num_micro_batches, shape.devices_per_pipeline,
          candidate.alternative, shape.peak_limit,        shape.frozen_hosts};
}

bool IsBetter(const Candidate& a, const Candidate& b) {
  return std::make_tuple(a.step_ns, Order(a)) < std::make_tuple(b.step_ns, Order(b));
}

Frontier::Kinds Frontier::KindsOf(const Candidate& candidate) const {
  const PipelineShape& shape = candidate.shape;
  const bool spans = shape.devices_per_pipeline > devices_per_node_;
  const Key keys[] = {{candidate.alternative, spans, shape.num_stages, shape.num_micro_batches},
                      {candidate.alternative, spans, shape.num_stages, -1},
                      {candidate.alternative, spans, -1, -1}};
  Kinds kinds;
  for (size_t i = 0; i < kinds.size(); ++i) {
    kinds[i] = kinds_.try_emplace(keys[i], static_cast<int>(kinds_.size())).first->second;
  }
  return kinds;
}

bool Frontier::Learn(int kind, double error, Errors& errors) {
  if (kind >= static_cast<int>(errors.size())) errors.resize(kind + 1, 0);
  if (errors[kind] != 0 && errors[kind] <= error) return false;
  errors[kind] = error;
  return true;
}

double Frontier::Find(const Kinds& kinds, const Errors& errors, double otherwise) {
  for (int kind : kinds) {
    if (kind < static_cast<int>(errors.size()) && errors[kind] != 0) return errors[kind];
  }
  return otherwise;
}

void Frontier::Add(Candidate* candidate) {
  const Kinds kinds = KindsOf(*candidate);
  waiting_.push_back({candidate, kinds, candidate->exceeds_memory_bound(),
                      static_cast<Nanos>(Expected(*candidate, kinds))});
}

void Frontier::UpdateExpected(int kind) {
  for (Waiting& waiting : waiting_) {
    if (kind != kAny && waiting.kinds[0] != kind) continue;
    waiting.expected_ns = static_cast<Nanos>(Expected(*waiting.candidate, waiting.kinds));
  }
}

void Frontier::LearnCut(const Candidate& candidate) {
  if (candidate.estimate_ns <= 0) return;
  const double error =
      static_cast<double>(candidate.cut_estimate_ns) / static_cast<double>(candidate.estimate_ns);
  // With other S and M, other memory limits apply.
  const int kind = KindsOf(candidate)[0];
  if (Learn(kind, error, cut_errors_)) UpdateExpected(kind);
}

void Frontier::LearnStep(const Candidate& candidate, Nanos step_ns) {
  if (candidate.cut_estimate_ns <= 0) return;
  const double error = static_cast<double>(step_ns) / candidate.cut_estimate_ns;
  bool changes = error < least_step_error_;
  least_step_error_ = std::min(least_step_error_, error);
  for (int kind : KindsOf(candidate)) changes |= Learn(kind, error, step_errors_);
  if (changes) UpdateExpected(kAny);
}

bool Frontier::KnowsStepsLike(const Candidate& candidate) const {
  const size_t kind = KindsOf(candidate)[2];
  return kind < step_errors_.size() && step_errors_[kind] != 0;
}

std::optional<Frontier::Twins> Frontier::TwinsOf(const Candidate& candidate) const {
  const PipelineShape& shape = candidate.shape;
  if (devices_per_node_ > 1 && shape.devices_per_pipeline > devices_per_node_) return std::nullopt;
  return Twins{candidate.alternative,   candidate.may_recompute, shape.num_stages,
               shape.num_micro_batches, shape.frozen_hosts,      candidate.estimate_ns};
}

void Frontier::LearnOutcome(const Candidate& candidate) {
  const std::optional<Twins> twins = TwinsOf(candidate);
  if (twins) representatives_.try_emplace(*twins, &candidate);
}

const Candidate* Frontier::RepresentativeOf(const Candidate& candidate) const {
  const std::optional<Twins> twins = TwinsOf(candidate);
  const auto known = twins ? representatives_.find(*twins) : representatives_.end();
  return known == representatives_.end() ? nullptr : known->second;
}

Nanos Frontier::Expected(const Candidate& candidate) const {
  return static_cast<Nanos>(Expected(candidate, KindsOf(candidate)));
}

double Frontier::Expected(const Candidate& candidate, const Kinds& kinds) const {
  double expected = static_cast<double>(candidate.cut_estimate_ns);
  if (candidate.state == Candidate::State::kUncut) {
    expected = static_cast<double>(candidate.estimate_ns) * Find(kinds, cut_errors_, 1);
  }
  return expected * Find(kinds, step_errors_, least_step_error_);
}

Candidate* Frontier::TakeOut(size_t index) {
  if (index == waiting_.size()) return nullptr;
  Candidate* const taken = waiting_[index].candidate;
  waiting_[index] = waiting_.back();
  waiting_.pop_back();
  return taken;
}

Candidate* Frontier::Next() {
  size_t best = waiting_.size();
  std::pair<bool, Nanos> least;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const Candidate& candidate = *waiting_[i].candidate;
    const std::pair<bool, Nanos> here = {waiting_[i].exceeds_memory_bound, waiting_[i].expected_ns};
    if (best < waiting_.size() &&
        (least < here ||
         (here == least && !(Order(candidate) < Order(*waiting_[best].candidate))))) {
      continue;
    }
    least = here;
    best = i;
  }
  return TakeOut(best);
}

Candidate* Frontier::NextByMemory() {
  const auto place = [](const Waiting& waiting) {
    const Candidate& candidate = *waiting.candidate;
    return std::make_tuple(candidate.memory_share, waiting.expected_ns, Order(candidate));
  };
  const auto least =
      std::min_element(waiting_.begin(), waiting_.end(),
                       [&](const Waiting& a, const Waiting& b) { return place(a) < place(b); });
  return TakeOut(least - waiting_.begin());
}

}  // namespace dpipe
