#include "core/planner/strategy.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/text/show.h"
#include "core/planner/partition/partitioner.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::Status CheckField(const char* field, const std::string& value,
                        const std::vector<std::string>& valid) {
  if (std::find(valid.begin(), valid.end(), value) != valid.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("strategy: ", field, "='", ShowText(value),
                                                 "' is not one of ", ShowNames(valid),
                                                 "; bazel run //tools:plan -- --list shows all"));
}

absl::Status ParseBool(const std::string& key, const std::string& value, bool& out) {
  if (value != "true" && value != "false") {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: ", key, "='", value, "' is not one of true, false"));
  }
  out = value == "true";
  return absl::OkStatus();
}

std::string OrNone(const std::string& value) { return value.empty() ? "none" : value; }

absl::Status ParseCount(const std::string& key, const std::string& value, int32_t& out) {
  if (absl::SimpleAtoi(value, &out) && out >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("strategy: ", key, "='", value, "' is not an integer of at least 0"));
}

constexpr Sharding kShardings[] = {Sharding::kNone, Sharding::kZero1, Sharding::kZero3};

std::vector<std::string> ShardNames(const Strategy& strategy) {
  return absl::StrSplit(OrNone(strategy.shard()), '|');
}

std::vector<std::string> KnownShardings() {
  std::vector<std::string> known;
  for (Sharding sharding : kShardings) known.push_back(NameOf(sharding));
  return known;
}

bool Compresses(const Strategy& strategy) { return OrNone(strategy.compress()) != "none"; }

absl::Status CheckShard(const Strategy& strategy) {
  const std::vector<std::string> names = ShardNames(strategy);
  for (const std::string& name : names) {
    DPIPE_RETURN_IF_ERROR(CheckField("shard", name, KnownShardings()));
  }
  if (!Compresses(strategy) || std::find(names.begin(), names.end(), "none") != names.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("strategy: compress='", strategy.compress(),
                                                 "' and shard='", strategy.shard(),
                                                 "': only whole gradients are compressed"));
}

absl::Status CheckFillRule(const Strategy& strategy) {
  DPIPE_RETURN_IF_ERROR(CheckField("fill_rule",
                                   strategy.fill_rule().empty() ? "own" : strategy.fill_rule(),
                                   {"own", "published"}));
  if (strategy.local_batches().empty()) return absl::OkStatus();
  for (absl::string_view size : absl::StrSplit(strategy.local_batches(), '|')) {
    int samples = 0;
    if (absl::SimpleAtoi(size, &samples) && samples > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: local_batches='", ShowText(strategy.local_batches()), "': '",
                     ShowText(std::string(size)), "' is not a positive integer; try 4|8|16"));
  }
  return absl::OkStatus();
}

absl::Status CheckRelaxed(const Strategy& strategy) {
  const std::string weights = strategy.weights().empty() ? "exact" : strategy.weights();
  DPIPE_RETURN_IF_ERROR(CheckField("weights", weights, {"exact", "predicted", "stashed"}));
  const bool counts = strategy.update_every() != 0 || strategy.sync_every() != 0;
  if (weights == "exact" && counts) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy: update_every=", strategy.update_every(),
        " and sync_every=", strategy.sync_every(), " need weights=stashed or weights=predicted"));
  }
  if (weights != "exact" && strategy.frozen() == "fill") {
    return absl::InvalidArgumentError(absl::StrCat("strategy: frozen='fill' and weights='", weights,
                                                   "': only synchronous plans are filled"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<ScheduleAlternative> ScheduleAlternatives(const Strategy& strategy) {
  std::vector<ScheduleAlternative> choices;
  for (absl::string_view alternative : absl::StrSplit(strategy.schedule(), '|')) {
    const std::vector<std::string> parts = absl::StrSplit(alternative, '/');
    ScheduleAlternative& choice = choices.emplace_back();
    choice.schedule = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      const std::vector<std::string> shardings = KnownShardings();
      const bool shards =
          std::find(shardings.begin(), shardings.end(), parts[i]) != shardings.end();
      (shards ? choice.shard : choice.partitioner) = parts[i];
    }
  }
  return choices;
}

Sharding ShardingOf(const std::string& name) {
  for (Sharding sharding : kShardings) {
    if (name == NameOf(sharding)) return sharding;
  }
  return Sharding::kNone;
}

std::vector<int> LocalBatches(const Strategy& strategy) {
  std::vector<int> sizes;
  for (absl::string_view size : absl::StrSplit(strategy.local_batches(), '|', absl::SkipEmpty())) {
    int samples = 0;
    if (absl::SimpleAtoi(size, &samples)) sizes.push_back(samples);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

bool Relaxes(const Strategy& strategy) {
  return !strategy.weights().empty() && strategy.weights() != "exact";
}

std::vector<Sharding> ShardAlternatives(const Strategy& strategy) {
  std::vector<Sharding> alternatives;
  const std::vector<std::string> names = ShardNames(strategy);
  const bool whole_only = names.size() > 1 && (Compresses(strategy) || Relaxes(strategy));
  for (const std::string& name : names) {
    for (Sharding sharding : kShardings) {
      if (name != NameOf(sharding) || (whole_only && sharding != Sharding::kNone)) continue;
      alternatives.push_back(sharding);
    }
  }
  return alternatives;
}

void KeepFrozenWeightsWhole(Strategy& strategy) {
  const std::string divided = NameOf(Sharding::kZero3);
  std::vector<std::string> shardings = ShardNames(strategy);
  shardings.erase(std::remove(shardings.begin(), shardings.end(), divided), shardings.end());
  const std::vector<ScheduleAlternative> alternatives = ScheduleAlternatives(strategy);
  const std::vector<std::string> texts = absl::StrSplit(strategy.schedule(), '|');
  std::vector<std::string> schedules;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (alternatives[i].shard != divided) schedules.push_back(texts[i]);
  }
  if (shardings.empty() || schedules.empty()) return;
  strategy.set_shard(absl::StrJoin(shardings, "|"));
  strategy.set_schedule(absl::StrJoin(schedules, "|"));
}

absl::Status CheckStrategy(const Strategy& strategy) {
  DPIPE_RETURN_IF_ERROR(CheckField("partitioner", strategy.partitioner(), PartitionerNames()));
  for (const ScheduleAlternative& choice : ScheduleAlternatives(strategy)) {
    DPIPE_RETURN_IF_ERROR(CheckField("schedule", choice.schedule, ScheduleNames()));
    if (choice.partitioner.empty()) continue;
    DPIPE_RETURN_IF_ERROR(CheckField("partitioner", choice.partitioner, PartitionerNames()));
  }
  DPIPE_RETURN_IF_ERROR(
      CheckField("frozen", strategy.frozen(), {"cached", "fill", "first", "first_stage"}));
  DPIPE_RETURN_IF_ERROR(CheckFillRule(strategy));
  DPIPE_RETURN_IF_ERROR(CheckField("sync", strategy.sync(), {"bucketed", "end"}));
  DPIPE_RETURN_IF_ERROR(
      CheckField("recompute", OrNone(strategy.recompute()), {"auto", "full", "none"}));
  DPIPE_RETURN_IF_ERROR(CheckShard(strategy));
  DPIPE_RETURN_IF_ERROR(
      CheckField("compress", OrNone(strategy.compress()), {"cupcake", "l-greco", "none"}));
  if (Compresses(strategy) && Relaxes(strategy)) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: compress='", strategy.compress(),
                                                   "' and weights='", strategy.weights(),
                                                   "': relaxed plans reduce no gradients"));
  }
  return CheckRelaxed(strategy);
}

absl::Status SetStrategyField(absl::string_view assignment, Strategy& strategy) {
  const std::string text(assignment);
  const size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  bool flag = false;
  if (key == "partitioner") {
    strategy.set_partitioner(value);
  } else if (key == "schedule") {
    strategy.set_schedule(value);
  } else if (key == "frozen") {
    strategy.set_frozen(value);
  } else if (key == "sync") {
    strategy.set_sync(value);
  } else if (key == "recompute") {
    strategy.set_recompute(value);
  } else if (key == "shard") {
    strategy.set_shard(value);
  } else if (key == "compress") {
    strategy.set_compress(value);
  } else if (key == "weights") {
    strategy.set_weights(value);
  } else if (key == "update_every" || key == "sync_every" || key == "min_bubble_us" ||
             key == "fill_walks") {
    int32_t count = 0;
    DPIPE_RETURN_IF_ERROR(ParseCount(key, value, count));
    if (key == "update_every") strategy.set_update_every(count);
    if (key == "sync_every") strategy.set_sync_every(count);
    if (key == "min_bubble_us") strategy.set_min_bubble_us(count);
    if (key == "fill_walks") strategy.set_fill_walks(count);
  } else if (key == "fill_rule") {
    strategy.set_fill_rule(value);
  } else if (key == "local_batches") {
    strategy.set_local_batches(value);
  } else if (key == "one_partial") {
    DPIPE_RETURN_IF_ERROR(ParseBool(key, value, flag));
    strategy.set_one_partial(flag);
  } else if (key == "even_samples") {
    DPIPE_RETURN_IF_ERROR(ParseBool(key, value, flag));
    strategy.set_even_samples(flag);
  } else if (key == "tune") {
    DPIPE_RETURN_IF_ERROR(ParseBool(key, value, flag));
    strategy.set_tune(flag);
  } else if (key == "partial_batch") {
    DPIPE_RETURN_IF_ERROR(ParseBool(key, value, flag));
    strategy.set_partial_batch(flag);
  } else if (key == "cross_iteration") {
    DPIPE_RETURN_IF_ERROR(ParseBool(key, value, flag));
    strategy.set_cross_iteration(flag);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: '", ShowText(text),
                     "' does not set a field of a strategy, such as schedule=1f1b; "
                     "bazel run //tools:plan -- --list shows all"));
  }
  return absl::OkStatus();
}

}  // namespace dpipe
