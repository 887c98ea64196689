async def test_smoke(client):
    answer = await client.get("/assistants/echo")
    assert answer.status_code == 200, answer.text
    answer = await client.post("/assistants", json={"graph_id": "echo"})
    assert answer.status_code == 200, answer.text


async def test_smoke2(client):
    answer = await client.get("/assistants/echo")
    assert answer.status_code == 200, answer.text
