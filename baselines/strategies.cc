// The named strategies. Each is a composition of parts that core/planner and core/schedule know
// (registry.h lists the defaults).
#include "baselines/strategies.h"

namespace dpipe {

const std::vector<StrategyRow>& StrategyRows() {
  using Family = StrategyFamily;
  static const auto* const rows = new std::vector<StrategyRow>{
      // ---- Data parallelism.

      // Data parallelism, as in DistributedDataParallel: every device holds the whole model and
      // runs the frozen components and the backbone on its share of the batch. Gradients are
      // summed in buckets that overlap the backward pass. The search chooses the number of
      // micro-batches (gradient accumulation).
      {Family::kDataParallel, "data_parallel", "partitioner=none,schedule=single,shard=none",
       "whole model on every device, all-reduce in buckets (PyTorch DDP)"},

      // ZeRO-1 (Rajbhandari et al., SC 2020, P_os): data parallelism in which each device keeps
      // and updates a part of the optimizer's state. Gradients are reduced to their owners. The
      // new weights are gathered in buckets when the next step begins. Each bucket is gathered one
      // pass before the first forward pass that needs it. The frozen components and earlier passes
      // hide the collective. Weights that are not trained are neither divided nor gathered.
      {Family::kDataParallel, "zero1", "partitioner=none,schedule=single,shard=zero1",
       "data parallelism with the optimizer's state sharded (ZeRO-1)"},

      // ZeRO-3 (Rajbhandari et al., SC 2020), as in FullyShardedDataParallel: data parallelism in
      // which each device keeps a part of the weights, trained or not, and of the gradients and
      // moments. A bucket's weights are gathered before its forward pass and before its backward
      // pass, one bucket ahead. Its gradients are reduced to their owners.
      {Family::kDataParallel, "zero3", "partitioner=none,schedule=single,shard=zero3",
       "data parallelism with weights, gradients and moments sharded (ZeRO-3, FSDP)"},

      // ---- Pipelines with frozen work first.

      // 1F1B (PipeDream-Flush: Narayanan et al., ICML 2021): after its warm-up, a stage alternates
      // forward and backward passes. It stashes fewer micro-batches than GPipe and has the same
      // bubble. Frozen components run data-parallel before the pipeline. The search chooses the
      // numbers of stages and micro-batches.
      {Family::kPipeline, "1f1b", "schedule=1f1b", "one forward, one backward (PipeDream-Flush)"},

      // Eager 1F1B (Zhuang et al., cross-mesh resharding, MLSys 2023): 1F1B with a longer warm-up.
      // Each transfer gets one slot of time to arrive, at the cost of up to twice the stashed
      // micro-batches.
      {Family::kPipeline, "eager-1f1b", "schedule=eager-1f1b",
       "1F1B with twice the warm-up, to hide transfers"},

      // GPipe (Huang et al., NeurIPS 2019): all forward passes, then all backward passes, over the
      // stages of the exact partition. The frozen components run data-parallel before the
      // pipeline, as in systems without filling. The search chooses the numbers of stages and
      // micro-batches, so that filling is the only thing it lacks.
      {Family::kPipeline, "gpipe", "schedule=gpipe", "all forwards, then all backwards (GPipe)"},

      // Interleaved 1F1B (Narayanan et al., SC 2021): every device holds several non-adjacent
      // stages, which shortens warm-up and cool-down but sends more messages.
      {Family::kPipeline, "interleaved", "schedule=interleaved",
       "1F1B with two stages per device (Megatron-LM)"},

      // PULSE-style wave (arXiv 2606.19163): the backbone is folded into a V. A U-Net's encoder
      // stage shares a device with the decoder stage that reads its skips, so no skip tensor
      // crosses a link.
      {Family::kPipeline, "wave", "partitioner=skip_aware,schedule=wave",
       "encoder and decoder partners on one device, no skip crosses a link (PULSE)"},

      // ZeroPP (arXiv 2402.03791): interleaved stages whose weights are sharded over the replicas
      // of the pipeline and gathered once per unit of micro-batches.
      {Family::kPipeline, "zeropp", "schedule=zeropp,shard=zero3",
       "sharded stages gathered once per unit of micro-batches (ZeroPP)"},

      // ---- Partitions of other systems under 1F1B.

      // DAPPLE (Fan et al., PPoPP 2021): synchronous 1F1B over the partition and replication with
      // the lowest latency by DAPPLE's own model.
      {Family::kPartitioner, "dapple", "partitioner=dapple", "DAPPLE's planner under 1F1B"},

      // DawnPiper (arXiv 2505.05856): a recursive binary partition that balances compute within
      // the memory limit, then 1F1B.
      {Family::kPartitioner, "dawnpiper", "partitioner=dawnpiper",
       "DawnPiper's memory-aware partition under 1F1B"},

      // PipeDream's partitioner (Narayanan et al., SOSP 2019), which may replicate stages
      // unequally, under synchronous 1F1B. Excludes PipeDream's weight stashing, which changes the
      // mathematics.
      {Family::kPartitioner, "pipedream", "partitioner=pipedream",
       "PipeDream's partition with replicated stages, run synchronously"},

      // SPP-style (Luo et al., arXiv 2204.10562): devices ordered by recursive min-cut, a DP over
      // layers, stages and replication, then 1F1B. Called SPP-style because it is our own reading
      // of the paper.
      {Family::kPartitioner, "spp", "partitioner=spp",
       "SPP-style: min-cut device order, replication DP"},

      // ---- Separate input-gradient and weight-gradient passes.

      // DualPipe-V: DeepSeek's bidirectional DualPipe, cut in half and folded into a V, which
      // needs only one copy of the weights.
      {Family::kZeroBubble, "dualpipe-v", "schedule=dualpipe-v", "DualPipe cut in half, in a V"},

      // V-Half (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024): a
      // V-shaped schedule whose building block stashes about half as much as 1F1B.
      {Family::kZeroBubble, "v-half", "schedule=v-half",
       "V with about half the activation memory (Controllable Memory)"},

      // V-Min (Qi et al., NeurIPS 2024): the V-shaped schedule whose building block stashes the
      // minimum, about a third as much as 1F1B.
      {Family::kZeroBubble, "v-min", "schedule=v-min",
       "V with about a third of the activation memory (Controllable Memory)"},

      // Automatic zero-bubble schedule (Qi et al., ICLR 2024): the order of forward, input-
      // gradient and weight-gradient passes that simulates best with the profile's times.
      {Family::kZeroBubble, "zb-auto", "schedule=zb-auto",
       "the best split order found by simulation for these times (Zero Bubble)"},

      // ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024): weight gradients are
      // separate passes and fill the cool-down, with the memory of 1F1B.
      {Family::kZeroBubble, "zb-h1", "schedule=zb-h1",
       "1F1B with weight gradients in the cool-down, at its memory (Zero Bubble)"},

      // ZB-H2 (Qi et al., ICLR 2024): ZB-H1 with more forward passes in the warm-up, which stashes
      // about twice as many micro-batches.
      {Family::kZeroBubble, "zb-h2", "schedule=zb-h2",
       "longer warm-up, almost no bubbles, twice the memory (Zero Bubble)"},

      // ZB-V (Qi et al., ICLR 2024): two stages per device, folded into a V. There are no bubbles
      // if the three kinds of passes take equal times, and the memory is that of 1F1B.
      {Family::kZeroBubble, "zb-v", "schedule=zb-v",
       "two stages per device in a V, no bubbles at equal times (Zero Bubble)"},

      // ---- Two directions, two copies of the weights.

      // BitPipe (arXiv 2410.19367): two V-shaped interleaved pipelines in opposite directions.
      {Family::kBidirectional, "bitpipe", "schedule=bitpipe",
       "two V-shaped pipelines in opposite directions (BitPipe)"},

      // Chimera (Li and Hoefler, SC 2021): two pipelines in opposite directions over the same
      // devices fill each other's ramps. Every device holds two stages, so there are two copies of
      // the weights.
      {Family::kBidirectional, "chimera", "schedule=chimera",
       "two directions at once, two copies of the weights (Chimera)"},

      // ---- Frozen work in the bubbles.

      // DiffusionPipe (Tian et al., MLSys 2024, arXiv 2405.01248): 1F1B over the exact partition,
      // with the frozen components' work for the next step placed in the bubbles of the current
      // step. [algorithms.md §4] Beyond the paper, devices get unequal numbers of samples, as
      // their bubbles and stages allow.
      {Family::kFilling, "diffusionpipe", "schedule=1f1b|cascaded,frozen=fill",
       "1F1B with the next step's frozen work in the bubbles (DiffusionPipe)"},

      // DiffusionPipe as published (Tian et al., MLSys 2024, arXiv 2405.01248), as this project
      // reads it: rebuilt from the paper's abstract and public descriptions, not from its code.
      // [algorithms.md §4]
      //
      // - The exact DP cuts the backbone for every D, S and M; its cut is used as it is, under
      //   1F1B.
      // - A bubble is an interval in which the same d devices of a group idle; those under 10 ms
      //   are skipped.
      // - A bubble is filled greedily: whole frozen layers at local batch B/d over the ready
      //   components, for the longest fill, then at most one layer on a partial batch of a listed
      //   size.
      // - What is left runs on all devices after the pipeline. All of it is the next step's work.
      //
      // Of all D, S and M, the shortest simulated step is kept. The publication is read as
      // choosing among its DP's results, which leaves open how they are compared; a simulation can
      // only help it. Its samples change devices between layers. The messages for that are part of
      // the plan and of its step, which makes the reading slower than a publication that moves
      // them for free. Frozen work runs in smaller pieces, or before the pipeline, if memory
      // requires it or that is faster.
      //
      // `diffusionpipe` differs: it uses bubbles of any length, one device at a time, keeps a
      // sample on one device, divides samples unevenly, takes one partial batch per chain,
      // compares several packings, and improves its cuts by simulation.
      // `//bench:ablation -- --steps` shows what each brings.
      {Family::kFilling, "diffusionpipe-paper",
       "partitioner=by_bound,schedule=1f1b|cascaded,frozen=fill,fill_rule=published,"
       "min_bubble_us=10000,local_batches=4|8|12|16|24|32|48|64|96,recompute=none,shard=none",
       "whole frozen layers on the devices that idle together (DiffusionPipe, our reading)"},

      // This project's own strategy: frozen work fills the bubbles of the schedule that simulates
      // best.
      //
      // - Zero-bubble, V-shaped and bidirectional schedules are candidates. Their weight gradients
      //   compete with frozen work for the same gaps. If there is too little frozen work to fill
      //   the bubbles of 1F1B, these schedules leave fewer bubbles to fill.
      // - One filled stage on every device is a candidate, and so is sharding the optimizer's
      //   state over the ranks of a stage. Each wins if its collectives are cheap.
      // - Bidirectional schedules need memory for two copies of the weights, and their sums agree
      //   only to rounding, not bit for bit.
      // - Every other strategy that computes the same gradients is an alternative, with its own
      //   partitioner and sharding, so that none of them is faster as a rule (search.h).
      {Family::kFilling, "opendiffusionpipe",
       "schedule=1f1b|eager-1f1b|interleaved|wave|zb-h1|zb-h2|zb-auto|zb-v|v-half|v-min|"
       "dualpipe-v|chimera|bitpipe|cascaded|cascaded-zb|cascaded-v|gpipe|single|"
       "wave/skip_aware|1f1b/dapple|1f1b/dawnpiper|1f1b/pipedream|1f1b/spp|single/zero3|"
       "zeropp/zero3,frozen=fill,tune=true",
       "the best filled plan over all schedules and shardings of the optimizer's state: ours"},

      // ---- Frozen outputs read from storage.

      // Precomputed frozen outputs: latents and text embeddings are read from storage, so no
      // frozen component runs. This costs storage and rules out image augmentation, so reports
      // show it as a reference, not as a competitor. The remaining backbone is trained by data
      // parallelism or by 1F1B over the exact partition, whichever simulates faster.
      {Family::kCached, "offline_cache", "schedule=single|1f1b,frozen=cached",
       "frozen outputs read from storage; no frozen component runs"},

      // ---- Delayed weights: different mathematics.

      // HetPipe (Park et al., arXiv 2005.14038): each pipeline group is a virtual worker that
      // trains by itself with stashed weights. The workers share their updates after each wave of
      // minibatches, at clock distance 0.
      {Family::kRelaxed, "hetpipe", "weights=stashed,update_every=1,sync_every=2",
       "virtual workers that share updates every wave of two (HetPipe)"},

      // PipeDream as published (Harlap et al., arXiv 1806.03377): 1F1B without a flush between
      // updates. Every micro-batch is a minibatch of its own. A stage updates its weights after
      // each backward pass. The version used by a forward pass is kept until the backward pass of
      // the same micro-batch. The pipeline drains at the end of a step, as PipeDream's does at the
      // end of an epoch.
      {Family::kRelaxed, "pipedream_stashing", "weights=stashed,update_every=1",
       "an update per micro-batch, weights stashed for its backward pass (PipeDream)"},

      // XPipe (Guan et al., arXiv 1911.04610): asynchronous 1F1B in which minibatches are cut into
      // micro-batches. Forward passes use weights that Adam's moments predict for the time of
      // their minibatch's own update, so no weight versions need to be kept.
      {Family::kRelaxed, "xpipe", "weights=predicted,update_every=2,recompute=none",
       "forward passes with weights predicted by Adam's moments (XPipe)"},
  };
  return *rows;
}

}  // namespace dpipe
