#include "core/schedule/layout.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status CheckStages(const PipelineLayout& layout, const CostModel& cost) {
  int next_layer = 0, replicas = 0;
  for (size_t s = 0; s < layout.stages.size(); ++s) {
    const StagePlacement& stage = layout.stages[s];
    if (stage.layers.begin != next_layer || stage.layers.empty()) {
      return Bad(absl::StrCat("stage ", s, ": layers ", stage.layers.ToString(), " must begin at ",
                              next_layer, " and not be empty"));
    }
    if (stage.replicas < 1 || layout.micro_batch_size % stage.replicas != 0) {
      return Bad(absl::StrCat("stage ", s, ": a micro-batch of ", layout.micro_batch_size,
                              " samples is not divisible over ", stage.replicas, " ranks"));
    }
    next_layer = stage.layers.end;
    replicas += stage.replicas;
  }
  if (next_layer != cost.num_layers(cost.backbone())) {
    return Bad(absl::StrCat("the stages hold ", next_layer, " layers of the backbone's ",
                            cost.num_layers(cost.backbone())));
  }
  if (replicas != layout.devices_per_pipeline) {
    return Bad(absl::StrCat("the stages take ", replicas, " ranks and a pipeline has ",
                            layout.devices_per_pipeline));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLayout(const PipelineLayout& layout, const CostModel& cost) {
  if (layout.num_devices != cost.num_devices()) {
    return Bad(absl::StrCat("the layout has ", layout.num_devices, " devices and the cluster ",
                            cost.num_devices()));
  }
  if (layout.devices_per_pipeline < 1 || layout.num_devices % layout.devices_per_pipeline != 0) {
    return Bad(absl::StrCat(layout.num_devices, " devices do not divide into pipelines of ",
                            layout.devices_per_pipeline));
  }
  if (layout.num_micro_batches < 1 || layout.micro_batch_size < 1) {
    return Bad(absl::StrCat(layout.num_micro_batches, " micro-batches of ", layout.micro_batch_size,
                            " samples; at least one of each"));
  }
  return CheckStages(layout, cost);
}

Seat SeatOf(const PipelineLayout& layout, int rank) {
  Seat seat{rank / layout.devices_per_pipeline, 0, rank % layout.devices_per_pipeline};
  for (; seat.index >= layout.stages[seat.stage].replicas; ++seat.stage) {
    seat.index -= layout.stages[seat.stage].replicas;
  }
  return seat;
}

int RankAt(const PipelineLayout& layout, const Seat& seat) {
  int rank = seat.group * layout.devices_per_pipeline + seat.index;
  for (int s = 0; s < seat.stage; ++s) rank += layout.stages[s].replicas;
  return rank;
}

SampleRange SamplesOf(const PipelineLayout& layout, int group, int stage, int index,
                      int micro_batch) {
  const int size = layout.micro_batch_size / layout.stages[stage].replicas;
  const int begin =
      group * layout.samples_per_group() + micro_batch * layout.micro_batch_size + index * size;
  return {begin, begin + size};
}

}  // namespace dpipe
