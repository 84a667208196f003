#!/usr/bin/env python3
"""A worker in Python, standard library only: python3 worker.py [JOBS]"""
import json, os, sys, threading, urllib.request

URL, TOKEN = os.environ.get("EBB_URL", "http://127.0.0.1:7070"), os.environ["EBB_TOKEN"]


def ask(path, body):
    request = urllib.request.Request(URL + "/v1/leases" + path, json.dumps(body).encode(), {
        "Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer)


def beat(lease, done, every):  # a lease without a heartbeat ends
    while not done.wait(every):
        ask("/heartbeat", {"leases": [{"id": lease["id"], "epoch": lease["epoch"]}]})


def handle(lease):  # the work itself; what it raises is judged by the job's policy
    return {"sum": sum(lease["args"]["numbers"])}


left = int(sys.argv[1]) if len(sys.argv) > 1 else -1
while left:
    claimed = ask("", {"kinds": ["sum"], "wait_s": 30, "worker": "python"})
    for lease in claimed["leases"]:
        row, done = {"id": lease["id"], "epoch": lease["epoch"]}, threading.Event()
        threading.Thread(target=beat, args=(lease, done, claimed["silence_s"] / 3), daemon=True).start()
        try:
            row["result"] = handle(lease)
        except Exception as error:
            row["failure"] = {"error": repr(error)}  # or class, status, retry_after_s
        done.set()
        print(json.dumps(ask("/settle", {"leases": [row]})["leases"][0]), flush=True)
        left -= 1
