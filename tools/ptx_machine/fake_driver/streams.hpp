// Streams, events and graphs: the order of work. Knows nothing of kernels or memory.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "tools/ptx_machine/fake_driver/abi.hpp"
#include "tools/ptx_machine/scheduler.hpp"

namespace ptx::fake {

using Work = std::function<void()>;

struct Stream;

// A position in a stream: everything up to and including its `count`th piece of work.
struct Point {
  Stream* stream = nullptr;
  std::uint64_t count = 0;
};

// An object that a graph keeps alive for its owner. `destroy` is called when no graph needs it any
// more.
struct UserObject {
  void* payload = nullptr;
  void (*destroy)(void*) = nullptr;
  unsigned references = 0;
};

struct Graph {
  struct Node {
    int type;
    Work work;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<void>>
      kept;  // user objects: released with the last copy of the graph
};

struct Capture {
  Stream* origin = nullptr;
  int mode = 0;
  std::uint64_t id = 0;
  bool invalidated = false;
  std::unique_ptr<Graph> graph;
};

struct Stream {
  struct Item {
    Work work;
    std::vector<Point> after;
  };
  bool blocking = true;  // synchronises with the legacy default stream
  bool legacy = false;
  unsigned flags = 0;
  int priority = 0;
  std::deque<Item> pending;
  std::uint64_t issued = 0;
  std::uint64_t done = 0;
  std::vector<Point> waits;  // before the next item
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> captured;  // dependencies of the next captured node
};

struct Event {
  unsigned flags = 0;
  Point point;
  double milliseconds = 0;
  std::weak_ptr<Capture> capture;
  std::vector<std::size_t> captured;
  bool in_capture = false;
};

enum NodeType { kKernelNode = 0, kCopyNode = 1, kFillNode = 2, kHostNode = 3, kEmptyNode = 5 };

class Streams {
 public:
  Streams();

  Stream* create(unsigned flags, int priority);
  bool destroy(Stream* stream);  // false: no such stream
  Stream* find(void* handle);    // nullptr: no such stream
  Event* create_event(unsigned flags);
  bool destroy_event(Event* event);
  bool is_event(const Event* event) const { return events_.contains(event); }

  // Adds work to the stream or, during a capture, a node to the graph.
  void enqueue(Stream& stream, int node_type, Work work);
  void finish(Point point);
  void finish(Stream& stream) { finish({&stream, stream.issued}); }
  void finish_all();
  bool done(Point point) const;
  void step(Stream& stream);  // runs one piece of work, as a query does

  void record(Event& event, Stream& stream);
  Result wait(Stream& stream, const Event& event);

  Result begin_capture(Stream& stream, int mode);
  Result end_capture(Stream& stream, std::unique_ptr<Graph>* graph);
  bool any_capture() const;  // true if a capture forbids unsafe calls
  void invalidate_captures();
  void run_graph(std::shared_ptr<const Graph> graph, Stream& stream);

  bool lazy = false;
  ptx::Random random{1};

 private:
  void run_front(Stream& stream);

  Stream legacy_;
  std::set<Stream*> streams_;
  std::set<const Event*> events_;
  std::vector<std::unique_ptr<Stream>> owned_;
  std::vector<std::unique_ptr<Event>> owned_events_;
  std::uint64_t next_capture_ = 1;
};

}  // namespace ptx::fake
