// Queues of work per stream. Lazy, they run only when somebody asks, so that a host that does not
// wait for what it needs is caught.
#include "tools/ptx_machine/fake_driver/streams.hpp"

#include <algorithm>
#include <chrono>

namespace ptx::fake {
namespace {

double now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since).count();
}

}  // namespace

Streams::Streams() {
  legacy_.legacy = true;
  streams_.insert(&legacy_);
}

Stream* Streams::create(unsigned flags, int priority) {
  owned_.push_back(std::make_unique<Stream>());
  Stream* stream = owned_.back().get();
  stream->flags = flags;
  stream->priority = priority;
  stream->blocking = (flags & kStreamNonBlocking) == 0;
  streams_.insert(stream);
  return stream;
}

// Destroyed streams and events stay in memory: points and pending work may name them.
bool Streams::destroy(Stream* stream) {
  if (stream == &legacy_ || !streams_.contains(stream)) return false;
  finish(*stream);
  streams_.erase(stream);
  return true;
}

Stream* Streams::find(void* handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) <= kLastDefaultStream) return &legacy_;
  auto* stream = static_cast<Stream*>(handle);
  return streams_.contains(stream) ? stream : nullptr;
}

Event* Streams::create_event(unsigned flags) {
  owned_events_.push_back(std::make_unique<Event>());
  owned_events_.back()->flags = flags;
  events_.insert(owned_events_.back().get());
  return owned_events_.back().get();
}

bool Streams::destroy_event(Event* event) { return events_.erase(event) != 0; }

void Streams::enqueue(Stream& stream, int node_type, Work work) {
  if (stream.capture != nullptr) {
    auto& nodes = stream.capture->graph->nodes;
    nodes.push_back({node_type, std::move(work), stream.captured});
    stream.captured = {nodes.size() - 1};
    return;
  }
  Stream::Item item{std::move(work), std::move(stream.waits)};
  stream.waits.clear();
  // The legacy default stream comes after everything in the blocking streams, and they after it.
  if (stream.legacy) {
    for (Stream* other : streams_) {
      if (other->blocking && other != &stream) item.after.push_back({other, other->issued});
    }
  } else if (stream.blocking) {
    item.after.push_back({&legacy_, legacy_.issued});
  }
  stream.pending.push_back(std::move(item));
  ++stream.issued;
  if (!lazy) finish(stream);
}

void Streams::run_front(Stream& stream) {
  for (const Point& point : stream.pending.front().after) finish(point);
  // Waiting may have run this very item, if what it waits for waited for it.
  if (stream.pending.empty()) return;
  Work work = std::move(stream.pending.front().work);
  stream.pending.pop_front();
  ++stream.done;
  if (work) work();
}

void Streams::finish(Point point) {
  while (point.stream != nullptr && point.stream->done < point.count &&
         !point.stream->pending.empty()) {
    run_front(*point.stream);
  }
}

void Streams::finish_all() {
  while (true) {
    std::vector<Stream*> busy;
    for (Stream* s : streams_) {
      if (!s->pending.empty()) busy.push_back(s);
    }
    if (busy.empty()) return;
    run_front(*busy[random.below(static_cast<ptx::u32>(busy.size()))]);
  }
}

bool Streams::done(Point point) const {
  return point.stream == nullptr || point.stream->done >= point.count;
}

void Streams::step(Stream& stream) {
  if (!stream.pending.empty()) run_front(stream);
}

void Streams::record(Event& event, Stream& stream) {
  event.in_capture = stream.capture != nullptr;
  event.capture = stream.capture;
  event.captured = stream.captured;
  if (event.in_capture) return;
  event.point = {};
  enqueue(stream, kEmptyNode, [&event] { event.milliseconds = now(); });
  event.point = {&stream, stream.issued};
}

Result Streams::wait(Stream& stream, const Event& event) {
  if (event.in_capture) {
    auto capture = event.capture.lock();
    if (capture == nullptr || capture->graph == nullptr) return kInvalidValue;
    if (stream.capture != nullptr && stream.capture != capture) return kCaptureUnsupported;
    stream.capture = capture;
    for (std::size_t node : event.captured) stream.captured.push_back(node);
    return kSuccess;
  }
  if (stream.capture != nullptr) return kCaptureIsolation;
  if (event.point.stream != nullptr) stream.waits.push_back(event.point);
  return kSuccess;
}

Result Streams::begin_capture(Stream& stream, int mode) {
  if (stream.legacy) return kCaptureUnsupported;
  if (stream.capture != nullptr) return kInvalidValue;
  stream.capture = std::make_shared<Capture>();
  stream.capture->origin = &stream;
  stream.capture->mode = mode;
  stream.capture->id = next_capture_++;
  stream.capture->graph = std::make_unique<Graph>();
  stream.captured.clear();
  return kSuccess;
}

Result Streams::end_capture(Stream& stream, std::unique_ptr<Graph>* graph) {
  if (stream.capture == nullptr) return kInvalidValue;
  auto capture = stream.capture;
  if (capture->origin != &stream) return kCaptureUnmatched;
  // Every node must come before what the origin would do next.
  std::vector<bool> joined(capture->graph->nodes.size());
  std::vector<std::size_t> todo = stream.captured;
  while (!todo.empty()) {
    std::size_t node = todo.back();
    todo.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    for (std::size_t before : capture->graph->nodes[node].after) todo.push_back(before);
  }
  for (Stream* s : streams_) {
    if (s->capture != capture) continue;
    s->capture = nullptr;
    s->captured.clear();
  }
  if (capture->invalidated) return kCaptureInvalidated;
  if (std::find(joined.begin(), joined.end(), false) != joined.end()) return kCaptureUnjoined;
  *graph = std::move(capture->graph);
  return kSuccess;
}

bool Streams::any_capture() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const Stream* s) {
    return s->capture != nullptr && s->capture->mode == 0;
  });
}

void Streams::invalidate_captures() {
  for (Stream* s : streams_) {
    if (s->capture != nullptr) s->capture->invalidated = true;
  }
}

// Nodes that nothing orders run in a random order.
void Streams::run_graph(std::shared_ptr<const Graph> graph, Stream& stream) {
  enqueue(stream, 4, [this, graph = std::move(graph)] {
    const auto& nodes = graph->nodes;
    std::vector<bool> finished(nodes.size());
    for (std::size_t ran = 0; ran < nodes.size(); ++ran) {
      std::vector<std::size_t> ready;
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        bool can =
            !finished[k] && std::all_of(nodes[k].after.begin(), nodes[k].after.end(),
                                        [&](std::size_t before) { return finished[before]; });
        if (can) ready.push_back(k);
      }
      std::size_t next = ready[random.below(static_cast<ptx::u32>(ready.size()))];
      if (nodes[next].work) nodes[next].work();
      finished[next] = true;
    }
  });
}

}  // namespace ptx::fake
