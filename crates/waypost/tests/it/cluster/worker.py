"""A worker on the public protocol, as anybody could write one, with bad habits that tests ask for.

Reads commands from its environment: SERVERS (comma-separated URLs), HANDLER, HABIT:
  plain    does what it should
  twice    sends each report twice
  foreign  first reports under a token that it made up, and must be refused
  late     holds each report back for a while
  frozen   works for long, so that it holds something whenever it is made to stand still
  roaming  sends each request to the next server
  forgets  says that it begins its first task, and drops it; does what it should with a second one, and
           takes no more
Prints "ran EXECUTION NODE ATTEMPT" for each task that it begins, and "stopped EXECUTION" for each that
it was told to stop; "forgot EXECUTION" for what it drops. For the answer to each report it prints
"reported EXECUTION ATTEMPT STATUS", and for the answers to both of two "twice FIRST SECOND".
"""

import http.client
import itertools
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

SERVERS = os.environ["SERVERS"].split(",")
HANDLER = os.environ["HANDLER"]
HABIT = os.environ.get("HABIT", "plain")
WORKER = uuid.uuid4().hex
CAPACITY = 16
running = {}
lock = threading.Lock()
room = threading.Condition(lock)
forgets = [HABIT == "forgets"]
mouth = threading.Lock()
steps = itertools.count()


def say(*words):
    """One line, whole: threads that print at once would tear each other's lines."""
    with mouth:
        print(*words, flush=True)


def post(path, body, turn=0):
    """One request; gives the status and the answer, or None where nobody answers."""
    server = SERVERS[turn % len(SERVERS)]
    data = json.dumps(body).encode()
    request = urllib.request.Request(server + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.loads(reply.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")
    except (OSError, http.client.HTTPException):
        return None, None


def until_answered(path, body):
    """Repeats, to any server, until the answer is one."""
    turn = next(steps) if HABIT == "roaming" else 0
    while True:
        status, answer = post(path, body, turn)
        if status in (200, 202, 400, 404, 409):
            return status, answer
        turn += 1
        time.sleep(0.1)


def names(task):
    return {
        "worker": WORKER,
        "execution": task["execution"],
        "node": task["node"],
        "attempt": task["attempt"],
    }


def work(task, cancelled):
    path = "/v1/tasks/" + task["token"]
    try:
        status, _ = until_answered(path + "/start", names(task))
        if status not in (200, 202):
            return
        with lock:
            forgotten, forgets[0] = forgets[0], False
        if forgotten:
            say("forgot", task["execution"])
            return
        say("ran", task["execution"], task["node"], task["attempt"])
        seconds = 20 if HABIT == "frozen" else task["input"].get("ms", 0) / 1000
        if cancelled.wait(seconds):
            say("stopped", task["execution"])
            until_answered(path + "/report", dict(names(task), status="cancelled"))
            return
        report = dict(names(task), status="completed", output={"n": task["input"]["n"]})
        if HABIT == "foreign":
            foreign = "/v1/tasks/" + uuid.uuid4().hex + "/report"
            status, answer = until_answered(foreign, dict(report, output="forged"))
            say("foreign", status, (answer or {}).get("code"))
        if HABIT == "late":
            time.sleep(2)
        status, _ = until_answered(path + "/report", report)
        say("reported", task["execution"], task["attempt"], status)
        if HABIT == "twice":
            again, _ = until_answered(path + "/report", report)
            say("twice", status, again)
    finally:
        with room:
            running.pop(task["token"], None)
            room.notify()


def main():
    turn = given = 0
    while True:
        with lock:
            tasks = list(running)
        free = CAPACITY - len(tasks) if HABIT != "forgets" else 2 - given
        sign = {
            "name": "python",
            "handlers": [HANDLER],
            "capacity": CAPACITY,
            "running": len(tasks),
            "max": free,
            "tasks": tasks,
        }
        # With all hands full it only shows that it lives, and comes back when one is free.
        wait = "2s" if free or HABIT == "forgets" else "0s"
        status, answer = post("/v1/workers/%s/poll?wait=%s" % (WORKER, wait), sign, turn)
        if status != 200:
            turn += 1
            time.sleep(0.1)
            continue
        if HABIT == "roaming":
            turn += 1
        with lock:
            for token in answer["cancel"]:
                if token in running:
                    running[token].set()
            given += len(answer["tasks"])
            for task in answer["tasks"]:
                cancelled = running[task["token"]] = threading.Event()
                threading.Thread(target=work, args=(task, cancelled), daemon=True).start()
        if not free:
            with room:
                room.wait_for(lambda: len(running) < CAPACITY, timeout=0.5)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
